#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos {

/// Bytes that nobody can guess, from the kernel: tokens, nonces, ids.
void fill_random(std::span<std::byte> bytes);

/// Never zero, so that it may serve as an Id.
std::uint64_t random_u64();

}  // namespace pharos
