#pragma once

#include <cstddef>

namespace pharos::actors {

/// The memory of result cells. A call takes a cell in one thread and often gives it back in another, which general
/// allocators handle slowly; so each thread keeps some free cells, and threads pass them to each other in batches.
/// Bounds: about 128 free cells of each thread, and 4096 of the process; what is more goes back to the allocator. All
/// of it is plain memory: a child of fork() may use it. Any thread. `bytes` is always the same.
/// With the address or the thread sanitizer each cell comes from the allocator, so that a use after its end is found.
void* take_cell_memory(std::size_t bytes);
void give_back_cell_memory(void* memory) noexcept;

}  // namespace pharos::actors
