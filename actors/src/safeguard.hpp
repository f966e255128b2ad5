#pragma once

#include <cstdint>
#include <optional>

namespace pharos::actors {

/// What the simulator's mutation drill turns off, one at a time, to see that a run goes red without it.
enum class Safeguard : std::uint8_t {
  kDeduplication,  ///< a call that comes again is not run again
  kOrder,          ///< a call waits for earlier ones whose arguments are not there yet
  kRetry,          ///< what was on its way to an incarnation that died is sent again, if it may be
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
