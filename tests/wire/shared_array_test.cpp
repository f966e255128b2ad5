#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <pharos/wire/shared_array.hpp>
#include <pharos/wire/stored_codec.hpp>

#include "coding.hpp"

namespace pharos {
namespace {

SharedArray<float, 2> two_by_three() {
  return {{2, 3}, SharedSpan<float>{std::vector<float>{1, 2, 3, 4, 5, 6}}};
}

/// Decodes the bytes; `failed` is whether they were refused.
SharedArray<float, 2> decoded(const std::vector<std::byte>& bytes, bool& failed) {
  Decoder from{bytes};
  auto value = Codec<SharedArray<float, 2>>::decode(from);
  failed = from.failed();
  return value;
}

TEST(SharedArray, KnowsItsRowsAndColumns) {
  const auto array = two_by_three();
  EXPECT_EQ(array(0, 0), 1);
  EXPECT_EQ(array(1, 2), 6);
  EXPECT_EQ(array.row(1)[0], 4);
  EXPECT_EQ(array.row(1).size(), 3U);
  EXPECT_EQ(array.size(), 6U);
  std::vector<int> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0);
  const SharedArray<int, 3> deep{{2, 3, 4}, SharedSpan<int>{numbers}};
  EXPECT_EQ(deep(1, 2, 3), 23);
  EXPECT_EQ(deep(1, 0, 1), 13);
  EXPECT_EQ(deep.row(1).size(), 12U);
}

TEST(SharedArray, ComesBackAsItWas) {
  const auto back = round_trip(two_by_three());
  EXPECT_EQ(back.extents(), (std::array<std::size_t, 2>{2, 3}));
  EXPECT_EQ(back(1, 1), 5);
  const auto empty = round_trip(SharedArray<float, 2>{{0, 3}, {}});
  EXPECT_EQ(empty.extent(1), 3U);
  EXPECT_EQ(empty.size(), 0U);
}

TEST(SharedArray, ExtentsThatAreNotThoseOfTheElementsAreRefused) {
  const auto bytes = encoded(two_by_three());
  for (const std::uint64_t extent : {0ULL, 1ULL, 3ULL, 1ULL << 40, ~0ULL, (1ULL << 63) + 1}) {
    auto other = bytes;
    std::memcpy(other.data(), &extent, sizeof extent);
    bool failed = false;
    const auto back = decoded(other, failed);
    EXPECT_TRUE(failed) << extent;
    EXPECT_EQ(back.size(), 0U) << extent;
  }
}

TEST(SharedArray, AProductThatOverflowsIsMoreThanAnyMemory) {
  EXPECT_EQ(detail::product_of(std::array<std::size_t, 2>{std::size_t{1} << 40, std::size_t{1} << 40}), SIZE_MAX);
  EXPECT_EQ(detail::product_of(std::array<std::size_t, 3>{std::size_t{1} << 40, std::size_t{1} << 40, 0}), 0U);
  EXPECT_EQ(detail::product_of(std::array<std::size_t, 3>{std::size_t{1} << 40, std::size_t{1} << 40, 2}), SIZE_MAX);
}

TEST(SharedArray, ItsStoredBytesAreNotThoseOfAFlatOne) {
  const auto bytes = to_bytes(two_by_three()).value();
  EXPECT_EQ((from_bytes<SharedArray<float, 2>>(bytes)->extents()), (std::array<std::size_t, 2>{2, 3}));
  EXPECT_FALSE(from_bytes<SharedSpan<float>>(bytes).ok());
  EXPECT_FALSE((from_bytes<SharedArray<float, 3>>(bytes).ok()));
}

}  // namespace
}  // namespace pharos
