#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos {

/// Fills `bytes` with unpredictable bytes from the kernel, for tokens, nonces and ids. Aborts the process if the kernel
/// gives none. Any thread.
void fill_random(std::span<std::byte> bytes);

/// Returns an unpredictable number that is never zero, so that it can be the value of an Id. Threads and failure are
/// those of fill_random().
std::uint64_t random_u64();

}  // namespace pharos
