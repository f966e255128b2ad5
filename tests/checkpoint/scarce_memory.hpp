#pragma once

#include <cstddef>
#include <cstdint>

namespace pharos {

// The program's operator new, which fails where a test wants it to.

enum class Shortage : std::uint8_t { kNone, kOnce, kLasting };

/// From now on so many allocations of this process work, and then one fails, or all do. Smaller ones always work.
void begin_shortage(Shortage of, std::int64_t works, std::size_t bytes_min = 0);
/// Whether there was one.
bool end_shortage();
/// The calling thread has memory all the time.
void be_spared();

}  // namespace pharos
