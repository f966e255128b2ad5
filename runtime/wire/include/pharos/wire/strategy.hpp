#pragma once

#include <cstdint>

namespace pharos {

/// How the bundles of a placement group are distributed over nodes.
enum class Strategy : std::uint8_t {
  kPack,          ///< on as few nodes as possible
  kSpread,        ///< on as many nodes as possible
  kStrictPack,    ///< all on one node
  kStrictSpread,  ///< each on a different node
};
constexpr bool pharos_valid(Strategy strategy) {
  return strategy <= Strategy::kStrictSpread;
}

}  // namespace pharos
