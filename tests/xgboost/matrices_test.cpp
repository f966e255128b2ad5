#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include <pharos/ml/xgboost.hpp>

#include "generated.hpp"

namespace pharos::ml::xgboost {
namespace {

std::uint64_t built_by(const std::function<void()>& work) {
  const std::uint64_t before = matrices_built();
  work();
  return matrices_built() - before;
}

TEST(MatricesTest, DataIsBinnedOnceForAllTrialsOfAThread) {
  const Data all = two_classes(600);
  const auto trial = [&](double eta, std::int64_t bins) {
    train(logistic({{"eta", eta}, {"max_bin", bins}}), all.slice(0, 400), all.slice(400, 600), {.rounds = 3});
  };
  EXPECT_EQ(built_by([&] {
              for (const double eta : {0.1, 0.2, 0.3, 0.4, 0.5}) trial(eta, 256);
            }),
            2U);
  EXPECT_EQ(built_by([&] { trial(0.1, 64); }), 2U);
  EXPECT_EQ(built_by([&] { trial(0.2, 256); }), 0U);
  EXPECT_EQ(built_by([&] { train(logistic(), all.slice(0, 400), all.slice(500, 600), {.rounds = 1}); }), 1U);
  drop_matrices();
  EXPECT_EQ(built_by([&] { trial(0.1, 256); }), 2U);
}

TEST(MatricesTest, AnotherThreadHasItsOwn) {
  const Data data = two_classes(300);
  train(logistic(), data, {}, {.rounds = 1});
  std::uint64_t built = 0;
  std::thread{[&] {
    train(logistic(), data, {}, {.rounds = 1});
    built = matrices_built();
  }}.join();
  EXPECT_EQ(built, 1U);
}

TEST(MatricesTest, WhatNobodyOwnsIsBinnedEachTime) {
  const Data owned = two_classes(300);
  std::vector<float> features(owned.features.begin(), owned.features.end());
  const Data borrowed{.columns = owned.columns, .features = {nullptr, features}, .labels = owned.labels};
  const auto best = [&] { return train(logistic(), borrowed, {}, {.rounds = 3}).best; };
  const double first = best();
  EXPECT_EQ(built_by([&] { EXPECT_EQ(best(), first); }), 1U);
  for (float& each : features) each = 0;
  EXPECT_EQ(best(), 0.5);
}

TEST(MatricesTest, TheEldestGoWhenThereAreMany) {
  const Data all = two_classes(1000);
  const auto fold = [&](std::size_t n) { train(logistic(), all.slice(n, 500 + n), {}, {.rounds = 1}); };
  const auto folds = [&](std::size_t count) {
    return built_by([&] {
      for (std::size_t n = 0; n < count; ++n) fold(n);
    });
  };
  drop_matrices();
  EXPECT_EQ(folds(10), 10U);
  EXPECT_EQ(folds(10), 0U);
  EXPECT_EQ(folds(40), 30U);
  EXPECT_EQ(folds(1), 1U);
}

}  // namespace
}  // namespace pharos::ml::xgboost
