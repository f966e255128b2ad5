#include <gtest/gtest.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include <pharos/object_store/checksum.hpp>

namespace pharos::object_store {
namespace {

// Nodes with other processors check each other's chunks, so the library's own, portable function is the standard.
TEST(ChecksumTest, IsTheOneOfTheLibraryForEachSize) {
  std::mt19937_64 random{7};
  std::vector<std::byte> bytes(kPieceBytes + 1);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  for (const std::size_t size : {0UL, 1UL, 16UL, 240UL, 241UL, 1000UL, 4096UL, 262'144UL, bytes.size()}) {
    const auto piece = std::span{bytes}.first(size);
    EXPECT_EQ(checksum_of(piece), XXH3_64bits(piece.data(), piece.size())) << size;
  }
}

TEST(ChecksumTest, ChangesWithEachByte) {
  std::vector<std::byte> bytes(1000);
  const std::uint64_t sum = checksum_of(bytes);
  for (std::byte& each : bytes) {
    each = std::byte{1};
    EXPECT_NE(checksum_of(bytes), sum);
    each = std::byte{0};
  }
}

}  // namespace
}  // namespace pharos::object_store
