#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/order.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

std::vector<std::uint64_t> all_of(const Order& order, std::uint64_t epoch) {
  const Order::Epoch one = order.epoch(epoch);
  std::vector<std::uint64_t> samples;
  for (std::uint64_t place = 0; place < order.size(); ++place) samples.push_back(one[place]);
  return samples;
}

bool has_each_once(std::vector<std::uint64_t> samples) {
  std::ranges::sort(samples);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != i) return false;
  }
  return true;
}

TEST(Shuffled, HasEachSampleOnceWhateverTheSize) {
  for (std::uint64_t size = 0; size <= 300; ++size) {
    for (const std::uint64_t epoch : {0, 1, 7}) {
      EXPECT_TRUE(has_each_once(all_of(Order::shuffled(size, 42), epoch))) << size << ' ' << epoch;
    }
  }
  EXPECT_TRUE(has_each_once(all_of(Order::shuffled(100'003, 1), 0)));
}

TEST(Shuffled, IsTheSameForTheSameSeedAndEpochAndAnotherElse) {
  const auto order = all_of(Order::shuffled(1000, 3), 5);
  EXPECT_EQ(all_of(Order::shuffled(1000, 3), 5), order);
  EXPECT_NE(all_of(Order::shuffled(1000, 3), 6), order);
  EXPECT_NE(all_of(Order::shuffled(1000, 4), 5), order);
}

TEST(Shuffled, EachSampleIsAtEachPlaceAsOften) {
  // With 4000 seeds each of the 7 x 7 cells is expected to have 571. Chi squared with 36 degrees of freedom is below 80
  // in all but one of 10 000 runs.
  constexpr std::uint64_t kSize = 7;
  constexpr int kSeeds = 4000;
  std::vector<int> counts(kSize * kSize);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto samples = all_of(Order::shuffled(kSize, static_cast<std::uint64_t>(seed)), 0);
    for (std::uint64_t place = 0; place < kSize; ++place) ++counts[place * kSize + samples[place]];
  }
  const double expected = static_cast<double>(kSeeds) / kSize;
  double chi_squared = 0;
  for (const int each : counts) chi_squared += (each - expected) * (each - expected) / expected;
  EXPECT_LT(chi_squared, 80);
}

TEST(Shuffled, NeighboursDoNotStayNeighbours) {
  const auto samples = all_of(Order::shuffled(10'000, 9), 0);
  // In a random order, neighbours differ by a third of the size in the mean.
  double steps = 0;
  int close = 0;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const double step = std::abs(static_cast<double>(samples[i]) - static_cast<double>(samples[i - 1]));
    steps += step;
    if (step == 1) ++close;
  }
  EXPECT_NEAR(steps / 9999, 10'000 / 3.0, 150);
  EXPECT_LT(close, 12);  // two are expected
}

TEST(Shuffled, APlaceOfABillionIsFoundWithoutMemory) {
  const Order::Epoch one = Order::shuffled(3'000'000'000'000, 5).epoch(2);
  std::set<std::uint64_t> seen;
  for (std::uint64_t place = 2'999'999'000'000; place < 2'999'999'000'000 + 1000; ++place) {
    EXPECT_LT(one[place], 3'000'000'000'000U);
    seen.insert(one[place]);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(InTurn, IsAsTheyLie) {
  EXPECT_EQ(all_of(Order::in_turn(4), 3), (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST(AsTorch, RefusesMoreThanItCanList) {
  EXPECT_SAYS(message_of<InvalidArgument>([] { Order::as_torch(std::uint64_t{1} << 32, 0); }), "Order::shuffled()");
}

}  // namespace
}  // namespace pharos::ml
