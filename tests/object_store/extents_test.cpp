#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <pharos/object_store/extents.hpp>
#include <pharos/object_store/slab.hpp>

#include "seed.hpp"

namespace pharos::object_store {
namespace {

using ExtentsTest = SeededTest;

TEST_F(ExtentsTest, RandomStretchesAreAsInAMapOfUnits) {
  constexpr std::size_t kLength = 300;
  Extents extents{kLength};
  std::vector<bool> taken(kLength);
  std::vector<std::pair<std::size_t, std::size_t>> stretches;
  const auto longest = [&] {
    std::size_t best = 0;
    std::size_t run = 0;
    for (const bool unit : taken) best = std::max(best, run = unit ? 0 : run + 1);
    return best;
  };
  for (int step = 0; step < 20'000; ++step) {
    if (stretches.empty() || chance(2)) {
      const std::size_t length = between(1, 40);
      const auto begin = extents.take(length);
      ASSERT_EQ(begin.has_value(), longest() >= length);
      if (!begin) continue;
      for (std::size_t i = 0; i < length; ++i) {
        ASSERT_FALSE(taken.at(*begin + i));
        taken[*begin + i] = true;
      }
      stretches.emplace_back(*begin, length);
    } else {
      const std::size_t which = between(0, stretches.size() - 1);
      const auto [begin, length] = stretches[which];
      extents.give_back(begin, length);
      std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(begin), length, false);
      stretches[which] = stretches.back();
      stretches.pop_back();
    }
    ASSERT_EQ(extents.free(), std::count(taken.begin(), taken.end(), false));
    ASSERT_EQ(extents.longest_free(), longest());
    const std::size_t at = between(0, kLength - 1);
    const std::size_t length = between(1, kLength - at);
    const auto from = taken.begin() + static_cast<std::ptrdiff_t>(at);
    ASSERT_EQ(extents.is_free(at, length),
              std::none_of(from, from + static_cast<std::ptrdiff_t>(length), [](bool unit) { return unit; }));
  }
}

TEST_F(ExtentsTest, TheSmallestStretchThatIsLongEnoughIsTaken) {
  Extents extents{100};
  ASSERT_EQ(extents.take(30), 0);
  ASSERT_EQ(extents.take(10), 30);
  ASSERT_EQ(extents.take(10), 40);
  extents.give_back(0, 30);
  extents.give_back(40, 10);
  EXPECT_EQ(extents.take(20), 0);  // from the free stretch of 30, not from the one of 60
  EXPECT_EQ(extents.take(40), 40);
}

TEST_F(ExtentsTest, ASlotIsAtMostAnEighthLargerThanItsObject) {
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = random_() >> between(20, 47);
    const std::uint64_t slot = slot_bytes_for(bytes);
    ASSERT_GE(slot, bytes);
    ASSERT_TRUE(is_slot_size(slot)) << slot;
    ASSERT_EQ(slot % 4096, 0);
    ASSERT_LE(slot, std::max(bytes + bytes / 8, kSlotBytesMin));
  }
  EXPECT_FALSE(is_slot_size(kSlotBytesMin - 4096));
  EXPECT_FALSE(is_slot_size((1 << 20) + 1));
  EXPECT_FALSE(is_slot_size(~std::uint64_t{0}));
}

}  // namespace
}  // namespace pharos::object_store
