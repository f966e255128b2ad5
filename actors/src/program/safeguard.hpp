#pragma once

#include <cstdint>
#include <optional>

namespace pharos::actors {

/// The rules that the simulator's mutation drill turns off, one at a time, to check that a run then fails.
enum class Safeguard : std::uint8_t {
  kDeduplication,  ///< A call that arrives again is not run again.
  kOrder,          ///< A call waits for earlier ones whose arguments are not ready.
  kRetry,          ///< Calls in flight to an incarnation that died are sent again, if they may be.
};

#ifdef PHAROS_DRILL
extern std::optional<Safeguard> safeguard_off;
inline bool stands(Safeguard safeguard) {
  return safeguard_off != safeguard;
}
#else
constexpr bool stands(Safeguard) {
  return true;
}
#endif

}  // namespace pharos::actors
