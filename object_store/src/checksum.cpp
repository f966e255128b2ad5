#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pharos/object_store/checksum.hpp>

#ifdef __x86_64__
extern "C" XXH64_hash_t pharos_checksum_avx2(const void* bytes, size_t size);
#endif

namespace pharos::object_store {

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
}

std::uint64_t checksum_of(std::span<const std::byte> piece) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return pharos_checksum_avx2(piece.data(), piece.size());
#endif
  return XXH3_64bits(piece.data(), piece.size());
}

}  // namespace pharos::object_store
