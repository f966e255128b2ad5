#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pharos/actors/actor_group.hpp>

namespace pharos::detail {

/// Returns how many places the dimensions have together; SIZE_MAX if no number holds them.
inline std::size_t places_in(const std::vector<Dimension>& dimensions) {
  std::size_t places = 1;
  for (const Dimension& each : dimensions) {
    if (__builtin_mul_overflow(places, each.size, &places)) return SIZE_MAX;
  }
  return places;
}

}  // namespace pharos::detail
