#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pharos/object_store/checksum.hpp>

namespace pharos::object_store {

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
}

std::uint64_t checksum_of(std::span<const std::byte> piece) {
  return XXH3_64bits(piece.data(), piece.size());
}

}  // namespace pharos::object_store
