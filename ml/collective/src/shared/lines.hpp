#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pharos/ml/collective/operation.hpp>

namespace pharos::ml {

constexpr std::size_t kSmallBytes = 16;  ///< the most data that a line itself can carry

/// The data that a rank publishes about a round or a letter. A value.
struct Said {
  Operation operation{};
  std::uint32_t window = 0;  ///< The window (see SharedWindows) that holds its data; 0: its staging buffer.
  std::uint64_t offset = 0;
  std::array<std::byte, kSmallBytes> small{};
};

/// What one rank publishes, in one cache line, so that a reader needs one access to memory. It lies in the memory of a
/// Meeting, zeros at first, and is never destroyed. Only one rank writes to it: first `said`, then `place`. The other
/// ranks read `said` only after they have seen that `place`; Meeting and LetterLines see to it that it is not written
/// again meanwhile. `place` is sequentially consistent, because Bell lets ranks sleep by it.
struct alignas(64) Line {
  std::atomic<std::uint64_t> place;  // the latest round of this slot and its phase; or the number of a letter
  Said said;
};
static_assert(sizeof(Line) == 64);

}  // namespace pharos::ml
