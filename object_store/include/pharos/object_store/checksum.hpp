#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos::object_store {

/// What leaves this machine's memory is checked when it comes back, in pieces that fit into a core's cache.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
std::size_t pieces_of(std::uint64_t bytes);

/// XXH3, 64 bits.
std::uint64_t checksum_of(std::span<const std::byte> piece);

}  // namespace pharos::object_store
