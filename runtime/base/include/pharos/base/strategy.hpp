#pragma once

#include <cstdint>

namespace pharos {

/// How the bundles of a placement group lie to each other.
enum class Strategy : std::uint8_t {
  kPack,          ///< on as few nodes as may be
  kSpread,        ///< on as many
  kStrictPack,    ///< on one
  kStrictSpread,  ///< each on a node of its own
};
constexpr bool pharos_valid(Strategy strategy) {
  return strategy <= Strategy::kStrictSpread;
}

}  // namespace pharos
