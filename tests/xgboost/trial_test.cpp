#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include <pharos/ml/trial.hpp>
#include <pharos/ml/xgboost.hpp>

#include "generated.hpp"

namespace pharos::ml::xgboost {
namespace {

/// Lets a trial go on until a step, and then gives another verdict.
class Line final : public detail::TrialConnection {
 public:
  Line(std::uint64_t until, Verdict then) : until_{until}, then_{then} {}

  Value ask(const std::string&, const Domain&) override { return 0.0; }
  Verdict report(std::uint64_t step, const Metrics& metrics, const Save& save) override {
    reported.push_back(*metrics.find("auc"));
    if (step < until_) return Verdict::kGoOn;
    if (then_ == Verdict::kPause) saved = Bytes{save()};
    return then_;
  }

  std::uint32_t cores() const override { return ++asked_for_cores % 3 + 1; }

  std::vector<double> reported;
  std::optional<Bytes> saved;
  mutable std::uint32_t asked_for_cores = 0;

 private:
  std::uint64_t until_;
  Verdict then_;
};

class TrialTest : public testing::Test {
 protected:
  Trained run(Line& line, std::uint64_t step, std::optional<Bytes> checkpoint, TrainOptions options) {
    Trial trial{line, {.step = step, .params = logistic({})}, std::move(checkpoint)};
    return train(trial, trial.params(), data_, held_out_, options);
  }

  Params params_ = logistic();
  const Data all_ = two_classes(1500);
  const Data data_ = all_.slice(0, 1000);
  const Data held_out_ = all_.slice(1000, 1500);
};

TEST_F(TrialTest, EachRoundIsReported) {
  Line line{100, Verdict::kGoOn};
  const Trained trained = run(line, 0, std::nullopt, {.rounds = 12});
  EXPECT_EQ(line.reported.size(), 12U);
  EXPECT_EQ(line.reported.back(), *trained.metrics.find("auc"));
  EXPECT_EQ(trained.verdict, Verdict::kGoOn);
}

TEST_F(TrialTest, ThreadsAreTheTrialsCoresEachRoundUnlessParametersSayHowMany) {
  Line line{100, Verdict::kGoOn};
  const Trained as_it_may = run(line, 0, std::nullopt, {.rounds = 12});
  EXPECT_GE(line.asked_for_cores, 12U);
  Line own{100, Verdict::kGoOn};
  Trial trial{own, {.params = logistic({{"nthread", std::int64_t{1}}})}, std::nullopt};
  const Trained alone = train(trial, trial.params(), data_, held_out_, {.rounds = 12});
  EXPECT_EQ(own.asked_for_cores, 0U);
  EXPECT_NEAR(as_it_may.best, alone.best, 1e-3);
}

TEST_F(TrialTest, OneThatIsToStopStops) {
  Line line{5, Verdict::kStop};
  const Trained trained = run(line, 0, std::nullopt, {.rounds = 50});
  EXPECT_EQ(trained.rounds, 5U);
  EXPECT_EQ(trained.verdict, Verdict::kStop);
}

TEST_F(TrialTest, OneThatWasPausedGoesOnAsIfItHadNotBeen) {
  Line whole{100, Verdict::kGoOn};
  const Trained expected = run(whole, 0, std::nullopt, {.rounds = 20});

  Line first{8, Verdict::kPause};
  EXPECT_EQ(run(first, 0, std::nullopt, {.rounds = 20}).verdict, Verdict::kPause);
  ASSERT_TRUE(first.saved.has_value());
  Line second{100, Verdict::kGoOn};
  const Trained resumed = run(second, 8, first.saved, {.rounds = 20});
  EXPECT_EQ(resumed.rounds, 20U);
  EXPECT_EQ(second.reported.size(), 12U);
  EXPECT_NEAR(second.reported.back(), whole.reported.back(), 1e-6);
  const auto of_whole = Model{expected.model}.predict(held_out_.features.span());
  const auto of_parts = Model{resumed.model}.predict(held_out_.features.span());
  double farthest = 0;
  for (std::size_t row = 0; row < of_whole.size(); ++row) {
    farthest = std::max(farthest, std::abs(static_cast<double>(of_whole[row]) - static_cast<double>(of_parts[row])));
  }
  EXPECT_LT(farthest, 1e-5);
}

TEST_F(TrialTest, OneThatSamplesGoesOnWithOtherSamplesThanItBeganWith) {
  params_ = logistic({{"subsample", 0.5}, {"colsample_bynode", 0.7}});
  Line whole{100, Verdict::kGoOn};
  run(whole, 0, std::nullopt, {.rounds = 20});
  Line first{8, Verdict::kPause};
  run(first, 0, std::nullopt, {.rounds = 20});
  Line second{100, Verdict::kGoOn};
  run(second, 8, first.saved, {.rounds = 20});
  EXPECT_NEAR(second.reported.back(), whole.reported.back(), 0.02);
}

TEST_F(TrialTest, ThePauseDoesNotForgetTheBestRound) {
  const TrainOptions options{.rounds = 400, .early_stopping_rounds = 10};
  Line whole{1000, Verdict::kGoOn};
  const Trained expected = run(whole, 0, std::nullopt, options);
  ASSERT_LT(expected.rounds, 400U);

  Line first{expected.best_rounds + 4, Verdict::kPause};
  run(first, 0, std::nullopt, options);
  Line second{1000, Verdict::kGoOn};
  const Trained resumed = run(second, expected.best_rounds + 4, first.saved, options);
  EXPECT_EQ(resumed.best_rounds, expected.best_rounds);
  EXPECT_EQ(resumed.best, expected.best);
  EXPECT_EQ(resumed.rounds, expected.rounds);
  EXPECT_EQ(Model{resumed.model}.rounds(), expected.best_rounds);
  EXPECT_NEAR(*resumed.metrics.find("auc"), expected.best, 1e-6) << "the metrics of the best round";
}

TEST_F(TrialTest, OneThatHadAllRoundsBeforeThePauseHasTheSameResultWithoutAnotherRound) {
  Line first{8, Verdict::kPause};
  const Trained expected = run(first, 0, std::nullopt, {.rounds = 8});
  ASSERT_TRUE(first.saved.has_value());
  Line second{100, Verdict::kGoOn};
  const Trained resumed = run(second, 8, first.saved, {.rounds = 8});
  EXPECT_TRUE(second.reported.empty());
  EXPECT_EQ(resumed.rounds, 8U);
  EXPECT_EQ(resumed.best, expected.best);
  EXPECT_EQ(resumed.best_rounds, expected.best_rounds);
  ASSERT_NE(resumed.metrics.find("auc"), nullptr);
  EXPECT_NEAR(*resumed.metrics.find("auc"), first.reported.back(), 1e-6);
}

TEST_F(TrialTest, OneThatIsToStopEarlyTrainsNoOtherRoundWhenItGoesOn) {
  const TrainOptions options{.rounds = 400, .early_stopping_rounds = 10};
  Line whole{1000, Verdict::kGoOn};
  const Trained expected = run(whole, 0, std::nullopt, options);
  ASSERT_LT(expected.rounds, 400U);

  Line first{expected.rounds, Verdict::kPause};
  run(first, 0, std::nullopt, options);
  ASSERT_TRUE(first.saved.has_value());
  Line second{1000, Verdict::kGoOn};
  const Trained resumed = run(second, expected.rounds, first.saved, options);
  EXPECT_TRUE(second.reported.empty());
  EXPECT_EQ(resumed.rounds, expected.rounds);
  EXPECT_EQ(resumed.best, expected.best);
  EXPECT_EQ(Model{resumed.model}.rounds(), expected.best_rounds) << "the model of the best round";
  ASSERT_NE(resumed.metrics.find("auc"), nullptr);
  EXPECT_NEAR(*resumed.metrics.find("auc"), expected.best, 1e-6);
}

}  // namespace
}  // namespace pharos::ml::xgboost
