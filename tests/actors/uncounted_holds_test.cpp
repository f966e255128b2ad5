#include "results/uncounted_holds.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace pharos::actors {
namespace {

TEST(UncountedHolds, WithoutAHoldUnderWayNothingWaits) {
  UncountedHolds holds;
  bool ran = false;
  holds.when_counted([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(UncountedHolds, WhatWaitsRunsWhenAllEarlierHoldsCountInWhateverOrderTheyDo) {
  UncountedHolds holds;
  std::vector<int> ran;
  const auto first = holds.add();
  const auto second = holds.add();
  holds.when_counted([&] { ran.push_back(2); });
  const auto third = holds.add();
  holds.when_counted([&] { ran.push_back(3); });
  holds.counted(second);
  EXPECT_TRUE(ran.empty());
  holds.counted(first);
  EXPECT_EQ(ran, std::vector{2}) << "the third hold came later";
  EXPECT_FALSE(holds.empty());
  holds.counted(third);
  EXPECT_EQ(ran, (std::vector{2, 3}));
  EXPECT_TRUE(holds.empty());
}

}  // namespace
}  // namespace pharos::actors
