#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pharos/object_store/checksum.hpp>

#ifdef __x86_64__
extern "C" XXH64_hash_t pharos_checksum_avx2(const void* bytes, size_t size);
#endif

namespace pharos::object_store {
namespace {

using Checksum = XXH64_hash_t (*)(const void* bytes, std::size_t size);

// Both functions return the same checksum.
Checksum fastest_here() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") != 0) return &pharos_checksum_avx2;
#endif
  return [](const void* bytes, std::size_t size) { return XXH3_64bits(bytes, size); };
}

}  // namespace

std::size_t pieces_of(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes);
}

std::uint64_t checksum_of(std::span<const std::byte> piece) {
  static const Checksum fastest = fastest_here();
  return fastest(piece.data(), piece.size());
}

}  // namespace pharos::object_store
