// Samples of different lengths: lists, what batches are made of them, and orders that keep similar lengths together.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/loader.hpp>

#include "says.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

/// List i has i % 7 numbers, which are different in all lists.
Lists some_lists(std::size_t count) {
  Lists lists(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < i % 7; ++k) lists[i].push_back(static_cast<std::int64_t>(1000 * i + k));
  }
  return lists;
}

DatasetPtr numbered(const Lists& lists, double padding = 0) {
  std::vector<std::int64_t> numbers(lists.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return side_by_side({rows_of({{"n", Array::of(numbers)}}), lists_of("tokens", lists, padding)});
}

/// Demands that each row of "tokens" is the list of its number, followed by padding.
void expect_lists(const Batch& batch, const Lists& lists, std::int64_t padding) {
  const Array& tokens = batch["tokens"];
  const auto numbers = batch["n"].values<std::int64_t>();
  const auto lengths = batch["tokens_length"].values<std::int64_t>();
  ASSERT_EQ(tokens.shape().size(), 2U);
  ASSERT_EQ(tokens.rows(), batch.numbers.size());
  const auto width = static_cast<std::size_t>(tokens.shape()[1]);
  std::size_t longest = 0;
  for (std::size_t row = 0; row < tokens.rows(); ++row) {
    std::vector<std::int64_t> expected = lists.at(static_cast<std::size_t>(numbers[row]));
    EXPECT_EQ(lengths[row], static_cast<std::int64_t>(expected.size()));
    longest = std::max(longest, expected.size());
    expected.resize(width, padding);
    const auto all = tokens.values<std::int64_t>();
    EXPECT_TRUE(std::ranges::equal(all.subspan(row * width, width), expected)) << row;
  }
  EXPECT_EQ(width, longest);
}

TEST(ListsTest, BatchesAreAsWideAsTheirLongestList) {
  const Lists lists = some_lists(100);
  for (const std::size_t threads : {0U, 3U}) {
    for (const std::uint32_t rank : {0U, 1U, 2U}) {
      Loader loader{numbered(lists, -7), {.batch = 8, .rank = rank, .ranks = 3, .seed = 3, .threads = threads}};
      std::size_t samples = 0;
      std::vector<Batch> kept;  // batches are given out in memory of their own
      for (int epoch = 0; epoch < 2; ++epoch) {
        while (auto batch = loader.next()) {
          samples += batch->samples;
          kept.push_back(*std::move(batch));
        }
      }
      EXPECT_EQ(samples, rank == 0 ? 68U : 66U);
      for (const Batch& each : kept) expect_lists(each, lists, -7);
    }
  }
}

TEST(ListsTest, AllListsOfABatchMayBeEmpty) {
  Loader loader{numbered(Lists(5)), {.batch = 5}};
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)["tokens"].shape(), (std::vector<std::int64_t>{5, 0}));
  expect_lists(*batch, Lists(5), 0);
}

TEST(ListsTest, RowsOfAListMayHaveAShapeAndAnyType) {
  // Two lists of rows of two halves: 1 row, and 2 rows.
  std::vector<Half> halves;
  for (int i = 1; i <= 6; ++i) halves.push_back(to_half(static_cast<float>(i)));
  Loader loader{lists_of("frames", Array::of(halves, {3, 2}), {1, 2}, 0.5), {.batch = 2, .order = Order::in_turn(2)}};
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)["frames"].shape(), (std::vector<std::int64_t>{2, 2, 2}));
  std::vector<float> values;
  for (const Half each : (*batch)["frames"].values<Half>()) values.push_back(to_float(each));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 0.5, 0.5, 3, 4, 5, 6}));
}

TEST(ListsTest, PartsAndChangesKeepTheLengths) {
  const Lists lists = some_lists(30);
  const DatasetPtr part = part_of(numbered(lists), 10, 15);
  EXPECT_EQ(lengths_of(*part, "tokens"), (std::vector<std::int64_t>{3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3}));
  const DatasetPtr sums = changed(part, {{"sum", DType::kI64, {}}}, [](const Sample& from, const NewSample& to) {
    const auto tokens = from.field<std::int64_t>(1);
    to.field<std::int64_t>(0)[0] = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  });
  Loader loader{sums, {.batch = 15, .order = Order::in_turn(15)}};
  const auto batch = loader.next();
  for (std::size_t i = 0; i < 15; ++i) {
    EXPECT_EQ((*batch)["sum"].values<std::int64_t>()[i],
              std::accumulate(lists[10 + i].begin(), lists[10 + i].end(), std::int64_t{0}));
  }
}

TEST(ListsTest, ACollationMakesTheBatch) {
  const Lists lists = some_lists(40);
  const auto one_after_the_other = [](std::span<const Sample> samples) {
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> ends;
    for (const Sample& each : samples) {
      const auto its = each.field<std::int64_t>(1);
      tokens.insert(tokens.end(), its.begin(), its.end());
      ends.push_back(static_cast<std::int64_t>(tokens.size()));
      EXPECT_EQ(static_cast<std::int64_t>(each.number), each.field<std::int64_t>(0)[0]);
    }
    return std::vector<NamedArray>{{"packed", Array::of(std::move(tokens))}, {"ends", Array::of(std::move(ends))}};
  };
  Loader loader{numbered(lists), {.batch = 9, .threads = 2, .collate = one_after_the_other}};
  std::size_t batches = 0;
  while (const auto batch = loader.next()) {
    ++batches;
    std::vector<std::int64_t> expected;
    for (const std::uint64_t each : batch->numbers)
      expected.insert(expected.end(), lists[each].begin(), lists[each].end());
    EXPECT_TRUE(std::ranges::equal((*batch)["packed"].values<std::int64_t>(), expected));
    EXPECT_EQ((*batch)["ends"].values<std::int64_t>().back(), static_cast<std::int64_t>(expected.size()));
    EXPECT_SAYS(message_of<NotFound>([&] { (*batch)["tokens"]; }), "no field");
  }
  EXPECT_EQ(batches, 5U);
  Loader throws{numbered(lists), {.batch = 9, .collate = [](std::span<const Sample>) -> std::vector<NamedArray> {
                                    throw std::domain_error{"these do not go together"};
                                  }}};
  EXPECT_SAYS(message_of<UserError>([&] { throws.next(); }), "do not go together");
}

TEST(ListsTest, WhatMakesNoSenseIsRefused) {
  const auto refusal = [](const auto& make) { return message_of<InvalidArgument>(make); };
  EXPECT_SAYS(refusal([] { lists_of("x", Array::of(std::vector<float>(3)), {1, 1}); }), "have 2 rows, and there are 3");
  EXPECT_SAYS(refusal([] { lists_of("x", Array::of(std::vector<float>(3)), {4, -1}); }), "a list of -1 rows");
  EXPECT_SAYS(refusal([] { side_by_side({}); }), "no datasets");
  EXPECT_SAYS(refusal([] { side_by_side({numbered(Lists(2)), numbered(Lists(3))}); }), "of 2 and of 3 samples");
  EXPECT_SAYS(refusal([] { side_by_side({numbered(Lists(2)), numbered(Lists(2))}); }), "a field \"n\"");
  EXPECT_SAYS(refusal([] { changed(numbered(Lists(2)), {{"t", DType::kI64, {kVaries}}}, {}); }), "varies");
  EXPECT_SAYS(refusal([] { lengths_of(*numbered(Lists(2)), "n"); }), "does not vary");
  EXPECT_SAYS(message_of<NotFound>([] { lengths_of(*numbered(Lists(2)), "m"); }), "no field \"m\"");
  EXPECT_SAYS(refusal([] { Order::bucketed({1, 2}, 0, 1); }), "no samples");
  const auto loader_of = [](const DatasetPtr& data) { Loader{data, {.batch = 1, .threads = 0}}; };
  for (const double padding : {0.5, -3e9, std::nan("")}) {
    EXPECT_SAYS(refusal([&] { loader_of(numbered(Lists(2), padding)); }), "is no number of its type");
  }
  EXPECT_SAYS(refusal([&] {
                loader_of(side_by_side({lists_of("x", Lists(2)), lists_of("x_length", Lists(2))}));
              }),
              "where the lengths of \"x\" would be");
  EXPECT_SAYS(refusal([] { Order::weighted({1, -1}, 1); }), "of sample 1");
  EXPECT_SAYS(refusal([] { Order::weighted({0, 0}, 1); }), "the sum of all weights is 0");
  class Unsaid final : public Dataset {
   public:
    std::uint64_t size() const override { return 2; }
    const std::vector<Field>& fields() const override { return fields_; }
    void read(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {}

   private:
    const std::vector<Field> fields_{{"t", DType::kU8, {kVaries}}};
  };
  Loader loader{std::make_shared<const Unsaid>(), {.batch = 2}};
  EXPECT_SAYS(refusal([&] { loader.next(); }), "does not say how long its field \"t\" is");
}

TEST(OrdersTest, BucketsKeepSimilarLengthsTogether) {
  constexpr std::uint64_t kBatch = 16;
  std::mt19937_64 random{seed_of_test()};
  std::vector<std::int64_t> lengths(5003);
  for (auto& each : lengths) each = static_cast<std::int64_t>(random() % 1000);
  const auto padded = [&](const Order::Epoch& epoch) {
    double padding = 0;
    for (std::uint64_t begin = 0; begin + kBatch <= lengths.size(); begin += kBatch) {
      std::int64_t longest = 0;
      for (std::uint64_t i = 0; i < kBatch; ++i) longest = std::max(longest, lengths[epoch[begin + i]]);
      for (std::uint64_t i = 0; i < kBatch; ++i) padding += static_cast<double>(longest - lengths[epoch[begin + i]]);
    }
    return padding / static_cast<double>(lengths.size());
  };
  const Order order = Order::bucketed(lengths, kBatch, 5);
  const Order::Epoch first = order.epoch(0);
  std::set<std::uint64_t> seen;
  std::vector<std::uint64_t> listed;
  for (std::uint64_t place = 0; place < lengths.size(); ++place) {
    seen.insert(first[place]);
    listed.push_back(first[place]);
  }
  EXPECT_EQ(seen.size(), lengths.size()) << "each sample comes once";
  EXPECT_LT(padded(first), 30);
  EXPECT_GT(padded(Order::shuffled(lengths.size(), 5).epoch(0)), 300);
  const Order::Epoch again = Order::bucketed(lengths, kBatch, 5).epoch(0);
  const Order::Epoch second = order.epoch(1);
  std::size_t same = 0;
  for (std::uint64_t place = 0; place < lengths.size(); ++place) {
    EXPECT_EQ(again[place], listed[place]);
    same += second[place] == listed[place] ? 1 : 0;
  }
  EXPECT_LT(same, 50U) << "each epoch has another order";
  EXPECT_LT(padded(second), 30);
}

TEST(OrdersTest, WeightsAreHowOftenSamplesCome) {
  std::vector<double> weights(1000, 1);
  weights[7] = 100;
  weights[8] = 0;
  const Order order = Order::weighted(weights, 3);
  std::map<std::uint64_t, double> counts;
  constexpr int kEpochs = 100;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order::Epoch drawn = order.epoch(epoch);
    for (std::uint64_t place = 0; place < order.size(); ++place) ++counts[drawn[place]];
  }
  EXPECT_EQ(counts.count(8), 0U);
  const double expected = 1e5 * 100 / 1098;
  EXPECT_NEAR(counts[7], expected, 5 * std::sqrt(expected));
  double others = 0;
  for (const auto& [sample, count] : counts) others += sample == 7 ? 0 : (count - 91.07) * (count - 91.07) / 91.07;
  EXPECT_NEAR(others / 998, 1, 0.25) << "chi square of the samples of weight 1";
}

}  // namespace
}  // namespace pharos::ml
