#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/xgboost.hpp>

#include "generated.hpp"
#include "says.hpp"

namespace pharos::ml::xgboost {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

TEST(TrainingTest, BeatsTheBestColumnAndTellsTheAucThatItHas) {
  const Data all = two_classes(6000);
  const Data data = all.slice(0, 4000);
  const Data held_out = all.slice(4000, 6000);
  const Trained trained =
      train(logistic({{"max_depth", std::int64_t{4}}, {"eta", 0.3}}), data, held_out, {.rounds = 40});
  double baseline = 0;
  for (std::size_t each = 0; each < data.columns; ++each) {
    baseline = std::max(baseline, auc(column(held_out, each), held_out.labels.span()));
  }
  const double reached = auc(Model{trained.model}.predict(held_out.features.span()), held_out.labels.span());
  EXPECT_GT(reached, baseline + 0.15) << baseline;
  EXPECT_GT(reached, 0.88);
  EXPECT_NEAR(*trained.metrics.find("auc"), reached, 1e-4);
  EXPECT_EQ(trained.rounds, 40U);
}

TEST(TrainingTest, EarlyStoppingEndsAndGivesTheModelOfTheBestRound) {
  const Data all = two_classes(1200);
  const Data held_out = all.slice(600, 1200);
  const Trained trained = train(logistic({{"max_depth", std::int64_t{8}}, {"eta", 0.5}}), all.slice(0, 600), held_out,
                                {.rounds = 500, .early_stopping_rounds = 7});
  EXPECT_LT(trained.rounds, 500U);
  EXPECT_EQ(trained.rounds, trained.best_rounds + 7);
  const Model model{trained.model};
  EXPECT_EQ(model.rounds(), trained.best_rounds);
  EXPECT_NEAR(auc(model.predict(held_out.features.span()), held_out.labels.span()), trained.best, 1e-4);
  EXPECT_EQ(*trained.metrics.find("auc"), trained.best);
}

TEST(TrainingTest, OneOfSeveralMetricsCanBeTheOneThatCounts) {
  const Data all = two_classes(1200);
  Params params = logistic();
  params.set("eval_metric", std::string{"logloss,auc"});
  const auto trained_by = [&](const char* metric) {
    return train(params, all.slice(0, 600), all.slice(600, 1200), {.rounds = 10, .metric = metric});
  };
  const Trained by_last = trained_by("");
  EXPECT_GT(by_last.best, 0.6);
  EXPECT_EQ(by_last.metrics.entries().size(), 2U);
  EXPECT_LT(trained_by("logloss").best, *train(logistic({{"eval_metric", std::string{"logloss"}}}), all.slice(0, 600),
                                               all.slice(600, 1200), {.rounds = 1})
                                             .metrics.find("logloss"));
  EXPECT_SAYS(message_of<InvalidArgument>([&] { trained_by("rmse"); }), "\"rmse\" is not measured");
}

TEST(TrainingTest, WhatIsMissingIsLearntFrom) {
  std::vector<float> features;
  std::vector<float> labels;
  for (int row = 0; row < 400; ++row) {
    const bool gone = row % 3 == 0;
    features.insert(features.end(), {gone ? kMissing : static_cast<float>(row % 7), static_cast<float>(row % 5)});
    labels.push_back(gone ? 1 : 0);
  }
  const Data data{.columns = 2, .features = SharedSpan<float>{features}, .labels = SharedSpan<float>{labels}};
  const Trained trained = train(logistic(), data, {}, {.rounds = 3});
  EXPECT_EQ(*trained.metrics.find("auc"), 1);
  const auto predicted = Model{trained.model}.predict(std::vector<float>{kMissing, 1, 3, 1});
  EXPECT_GT(predicted[0], 0.6F);
  EXPECT_LT(predicted[1], 0.4F);
}

TEST(TrainingTest, CategoriesAreSplitBySetsAndAmountsAreNot) {
  std::vector<float> features;
  std::vector<float> labels;
  for (int row = 0; row < 1000; ++row) {
    const int category = row * 7 % 10;
    features.push_back(static_cast<float>(category));
    labels.push_back(category % 3 == 1 ? 1 : 0);
  }
  Data data{.columns = 1, .features = SharedSpan<float>{features}, .labels = SharedSpan<float>{labels}};
  const Params stump = logistic({{"max_depth", std::int64_t{1}}, {"max_cat_to_onehot", std::int64_t{2}}});
  const double as_amount =
      *train(logistic({{"max_depth", std::int64_t{1}}}), data, {}, {.rounds = 1}).metrics.find("auc");
  data.categories = {0};
  const Trained trained = train(stump, data, {}, {.rounds = 1});
  EXPECT_LT(as_amount, 0.9);
  EXPECT_EQ(*trained.metrics.find("auc"), 1);
  const auto predicted = Model{trained.model}.predict(std::vector<float>{0, 1, 2, 4, 9});
  EXPECT_GT(std::min(predicted[1], predicted[3]), std::max({predicted[0], predicted[2], predicted[4]}));
}

TEST(TrainingTest, WeightsSayWhichRowsCount) {
  const Data all = two_classes(400);
  std::vector<float> labels(all.labels.begin(), all.labels.end());
  std::vector<float> weights(400, 1);
  for (std::size_t row = 200; row < 400; ++row) {
    labels[row] = 1 - labels[row];  // a wrong label, with weight 0
    weights[row] = 0;
  }
  Data wrong = all;
  wrong.labels = SharedSpan<float>{labels};
  const auto auc_of = [&](const Data& data) {
    return auc(Model{train(logistic(), data, {}, {.rounds = 20}).model}.predict(all.features.span()),
               all.labels.span());
  };
  const double misled = auc_of(wrong);
  wrong.weights = SharedSpan<float>{weights};
  EXPECT_GT(auc_of(wrong), misled + 0.1);
}

TEST(TrainingTest, AMetricOfOnesOwnSeesWhatTheModelPredictsAndEndsTheTraining) {
  const Data all = two_classes(1200);
  const Data held_out = all.slice(600, 1200);
  const auto wrong = [](std::span<const float> predictions, std::span<const float> labels) {
    double count = 0;
    for (std::size_t row = 0; row < labels.size(); ++row) count += (predictions[row] > 0.5F) != (labels[row] == 1);
    return count / static_cast<double>(labels.size());
  };
  const Params params{{"objective", std::string{"binary:logistic"}}, {"max_depth", std::int64_t{8}}};
  const Trained trained = train(params, all.slice(0, 600), held_out,
                                {.rounds = 300, .early_stopping_rounds = 5, .own_metric = {"wrong", wrong}});
  EXPECT_EQ(trained.metrics.entries().size(), 1U);
  EXPECT_EQ(trained.rounds, trained.best_rounds + 5);
  EXPECT_EQ(trained.best, wrong(Model{trained.model}.predict(held_out.features.span()), held_out.labels.span()));

  Params both = params;
  both.set("eval_metric", std::string{"error"});
  const Trained measured = train(both, all.slice(0, 600), held_out, {.rounds = 9, .own_metric = {"wrong", wrong}});
  EXPECT_NEAR(*measured.metrics.find("error"), *measured.metrics.find("wrong"), 1e-6);
}

TEST(TrainingTest, ParametersThatMakeNoSenseAreRefusedByName) {
  const Data data = two_classes(200);
  const auto refused = [&](std::initializer_list<Params::Entry> more) {
    return message_of<InvalidArgument>([&] { train(logistic(more), data, {}, {.rounds = 2}); });
  };
  EXPECT_SAYS(refused({{"etaa", 0.1}}), "does not use these parameters: \"etaa\". Correct");
  EXPECT_SAYS(refused({{"max_depth", std::string{"deep"}}}), "max_depth");
  EXPECT_SAYS(refused({{"max_bin", 2.5}}), "max_bin is 2.5");
  EXPECT_SAYS(refused({{"eta", -1.0}}), "value -1 for Parameter learning_rate");
  EXPECT_SAYS(refused({{"objective", std::string{"binary:nonsense"}}}), "binary:nonsense");
  EXPECT_SAYS(refused({{"eval_metric", std::string{"beauty"}}}), "beauty");
  const std::string exact = refused({{"tree_method", std::string{"exact"}}});
  EXPECT_SAYS(exact, "training with XGBoost: ");
  EXPECT_EQ(exact.find("Stack trace"), std::string::npos) << exact;
  EXPECT_SAYS(message_of<InvalidArgument>([&] { train(logistic(), data, {}, {.early_stopping_rounds = 3}); }),
              "without held-out rows");
}

TEST(TrainingTest, DataThatDoesNotFitIsRefusedWithItsNumbers) {
  const Data good = two_classes(100);
  const auto refused = [&](const auto& spoil) {
    Data data = good;
    spoil(data);
    return message_of<InvalidArgument>([&] { train(logistic(), data); });
  };
  EXPECT_SAYS(refused([](Data& data) { data.columns = 7; }), "800 features, which is not a multiple of its 7 columns");
  EXPECT_SAYS(refused([](Data& data) { data.columns = 4; }), "200 rows and 100 labels");
  EXPECT_SAYS(refused([](Data& data) { data.columns = 0; }), "no rows or no columns");
  EXPECT_SAYS(refused([](Data& data) { data.weights = SharedSpan<float>{std::vector<float>(3)}; }), "3 weights");
  EXPECT_SAYS(refused([](Data& data) { data.categories = {8}; }), "column 8");
  EXPECT_SAYS(refused([](Data& data) {
                std::vector<float> labels(data.labels.begin(), data.labels.end());
                labels[3] = 7;
                data.labels = SharedSpan<float>{labels};
              }),
              "label must be in ");
  const Data narrow{.columns = 4,
                    .features = SharedSpan<float>{std::vector<float>(4)},
                    .labels = SharedSpan<float>{std::vector<float>(1)}};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { train(logistic(), good, narrow); }),
              "the held-out rows have 4 columns, and the data has 8");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(good.slice(90, 101)); }),
              "the number of rows is 100");
}

std::size_t threads_of_process() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {}));
}

TEST(TrainingTest, AFreeCoreIsTakenBetweenRounds) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "XGBoost has one thread where there is one core";
  const Data all = two_classes(3000);
  const auto trained_with = [&](const std::function<int()>& threads) {
    return train(logistic({{"subsample", 0.8}}), all.slice(0, 2000), all.slice(2000, 3000),
                 {.rounds = 10, .threads = threads});
  };
  // The training has a thread of its own, because OpenMP keeps a pool of threads for each thread that has used it.
  std::thread{[&] {
    const Trained alone = trained_with([] { return 1; });
    std::vector<std::size_t> threads;
    const Trained helped = trained_with([&] {
      threads.push_back(threads_of_process());
      return threads.size() <= 6 ? 1 : 2;
    });
    // The number of threads is asked for once for the matrices, and before each round.
    ASSERT_EQ(threads.size(), 11U);
    EXPECT_EQ(threads[6], threads[0]);
    EXPECT_EQ(threads[7], threads[0] + 1);
    EXPECT_NEAR(helped.best, alone.best, 2e-3);
  }}.join();
}

}  // namespace
}  // namespace pharos::ml::xgboost
