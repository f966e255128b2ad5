#pragma once

#include <cstddef>
#include <cstdint>

namespace pharos {

// The program's operator new, which fails where a test wants it to.

enum class Shortage : std::uint8_t { kNone, kOnce, kLasting };

/// From this call on, so many allocations of this process work. Then one fails, or all that follow. Allocations of less
/// than `bytes_min` always work.
void begin_shortage(Shortage of, std::int64_t works, std::size_t bytes_min = 0);
/// Returns whether an allocation has failed.
bool end_shortage();
/// Allocations of the calling thread never fail.
void be_spared();

}  // namespace pharos
