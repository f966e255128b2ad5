#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos::object_store {

/// The size of the pieces that are checked. Data that leaves this machine's memory is checked when it comes back, in
/// pieces that fit into a core's cache.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
std::size_t pieces_of(std::uint64_t bytes);

/// Returns the 64-bit XXH3 checksum. Any thread. Used for objects on disk, and for chunks on their way between nodes.
std::uint64_t checksum_of(std::span<const std::byte> piece);

}  // namespace pharos::object_store
