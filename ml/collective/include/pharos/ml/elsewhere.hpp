#pragma once

#include <cstddef>
#include <span>

namespace pharos::ml {

/// A part of a rank's data that lies in other memory than the rest of the data. A value, which does not own that
/// memory.
struct Elsewhere {
  std::size_t begin = 0;  ///< Byte offset in the data where this part belongs.
  std::span<const std::byte> bytes{};
};

}  // namespace pharos::ml
