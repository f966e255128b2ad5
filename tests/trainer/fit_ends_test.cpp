// Where trainings end, and resume.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// Fails in the fourth step on rank 1, or on the only rank: the loss is NaN, or the loss is finite and its gradient is
/// not.
struct Broken : Learner {
  Broken(bool has_loss, bool clips) : has_loss_{has_loss}, clips_{clips} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({40, 1}))}}); }
  DatasetPtr validation_data() override { return training_data(); }
  Tensor training_step(const Batch& batch) override {
    const Tensor loss = net_->forward(tensor_of(batch["x"])).square().mean();
    if (context().step() != 3 || context().rank() + 1 != std::min(context().size(), 2U)) return loss;
    if (!has_loss_) return loss * std::numeric_limits<double>::quiet_NaN();
    return loss + (net_->bias * 0).sqrt().sum();  // 0, but its derivative is infinite
  }
  Metrics validation_step(const Batch&) override { return {{"score", 1}}; }
  Optimization configure_optimizers() override { return {.rule = Sgd{}, .clip_norm = clips_ ? 1.0 : 0.0}; }

 private:
  const bool has_loss_;
  const bool clips_;
  torch::nn::Linear net_{1, 1};
};

struct TooFew : Learner {
  explicit TooFew(std::int64_t training) : training_{training} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::zeros({training_, 1}))}}); }
  DatasetPtr validation_data() override { return rows_of({{"x", array_of(torch::zeros({2, 1}))}}); }
  Tensor training_step(const Batch& batch) override { return net_->forward(tensor_of(batch["x"])).sum(); }

 private:
  const std::int64_t training_;
  torch::nn::Linear net_{1, 1};
};

namespace {

TEST_F(FitTest, EndsWhereItsOptionsSay) {
  Runtime runtime;
  const auto steps_of = [&](const std::string& name, const FitOptions& how) {
    Trainer trainer{runtime, options(name, 1)};
    const TrainResult result = fit<Points>(trainer, how, std::uint64_t{0});
    EXPECT_TRUE(result.last(kValidated)) << "the last step is validated";
    EXPECT_EQ(checkpoints_in(folder_.path() / name / "checkpoints").at(0).moment.step, result.steps);
    return result.steps;
  };
  EXPECT_EQ(steps_of("epochs", {.batch = 50, .epochs = 2}), 6U);
  EXPECT_EQ(steps_of("steps", {.batch = 50, .epochs = 0, .steps = 11}), 11U);
  EXPECT_EQ(steps_of("both", {.batch = 50, .epochs = 2, .steps = 5}), 5U);
  EXPECT_EQ(steps_of("either", {.batch = 50, .epochs = 2, .steps = 50}), 6U);
  Trainer endless{runtime, options("endless", 1)};
  const auto refusal = [&](const FitOptions& how) {
    return message_of<InvalidArgument>([&] { fit<Points>(endless, how, std::uint64_t{0}); });
  };
  EXPECT_SAYS(refusal({.epochs = 0}), "never end");
  EXPECT_SAYS(refusal({.accumulate = 0}), "FitOptions::accumulate");
  EXPECT_SAYS(refusal({.flops_per_sample = 1}), "peak_flops");
  EXPECT_SAYS(refusal({.peak_flops = 1}), "flops_per_sample");
}

TEST_F(FitTest, GoesOnWhereItWasStopped) {
  Runtime runtime;
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Points>(calm, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  for (const std::uint64_t stop : {5U, 9U, 20U}) {  // within an epoch, and at the end of one
    SCOPED_TRACE(stop);
    const std::string name = "stopped" + std::to_string(stop);
    Trainer first{runtime, options(name, 2)};
    TrainerOptions at_end = options(name, 2);
    at_end.save_every = 1;
    const TrainResult begun = fit<Points>(*std::make_unique<Trainer>(runtime, std::move(at_end)),
                                          {.batch = 6, .epochs = 3, .steps = stop}, std::uint64_t{0});
    EXPECT_EQ(begun.steps, stop);
    const TrainResult rest = fit<Points>(first, {.batch = 6, .epochs = 3}, std::uint64_t{0});
    ASSERT_EQ(rest.reports.front().step, stop + 1);
    ASSERT_EQ(rest.steps, whole.steps);
    for (std::size_t i = stop; i < whole.steps; ++i) EXPECT_EQ(losses(rest)[i - stop], losses(whole)[i]) << i;
  }
}

TEST_F(FitTest, GoesOnFromTheCheckpointThatIsChosen) {
  Runtime runtime;
  TrainerOptions keeps_all = options("first", 2);
  keeps_all.keep_last = 100;
  Trainer first{runtime, std::move(keeps_all)};
  const TrainResult whole = fit<Points>(first, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  const auto saved = checkpoints_in(folder_.path() / "first" / "checkpoints");
  const auto chosen = std::ranges::find(saved, 12U, [](const SavedCheckpoint& each) { return each.moment.step; });
  ASSERT_NE(chosen, saved.end());
  FitOptions on_three{.batch = 4, .epochs = 3, .strategy = FitStrategy::kFullyShard, .begin_from = chosen->path};
  Trainer second{runtime, options("second", 3)};
  const TrainResult rest = fit<Points>(second, on_three, std::uint64_t{0});
  ASSERT_EQ(rest.reports.front().step, 13U);
  ASSERT_EQ(rest.steps, whole.steps);
  for (std::size_t i = 12; i < whole.steps; ++i) EXPECT_NEAR(losses(rest)[i - 12], losses(whole)[i], 1e-9) << i;
  Trainer again{runtime, options("second", 3)};
  EXPECT_TRUE(fit<Points>(again, on_three, std::uint64_t{0}).reports.empty()) << "its own checkpoint comes first";

  Trainer without_folder{runtime, {.scaling = {.cpus_per_worker = 0}, .progress = false}};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { fit<Points>(without_folder, on_three, std::uint64_t{0}); }),
              "without a folder");
  on_three.begin_from = folder_.path() / "nowhere";
  Trainer nowhere{runtime, options("third", 3)};
  EXPECT_SAYS(message_of<NotFound>([&] { fit<Points>(nowhere, on_three, std::uint64_t{0}); }), "nowhere");
}

TEST_F(FitTest, GoesOnOnOtherRanksByAnotherStrategy) {
  Runtime runtime;
  constexpr std::uint64_t kBefore = 5;
  constexpr std::uint64_t kFull = 8;  // full steps of twelve samples in an epoch of 101 samples
  Trainer calm{runtime, options("calm", 1)};
  const TrainResult whole = fit<Points>(calm, {.batch = 12, .epochs = 2}, std::uint64_t{0});
  for (const Tail tail : {Tail::kUneven, Tail::kDrop, Tail::kPad}) {
    for (const FitStrategy first : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
      const FitStrategy second = first == FitStrategy::kCopies ? FitStrategy::kFullyShard : FitStrategy::kZero1;
      SCOPED_TRACE("tail " + std::to_string(static_cast<int>(tail)) + ", from strategy " +
                   std::to_string(static_cast<int>(first)));
      const std::string name = std::to_string(static_cast<int>(tail)) + "-" + std::to_string(static_cast<int>(first));
      Trainer two{runtime, options(name, 2)};
      fit<Points>(two, {.batch = 6, .epochs = 2, .steps = kBefore, .strategy = first, .tail = tail}, std::uint64_t{0});
      Trainer three{runtime, options(name, 3)};
      const TrainResult rest =
          fit<Points>(three, {.batch = 4, .epochs = 2, .strategy = second, .tail = tail}, std::uint64_t{0});
      EXPECT_EQ(rest.reports.front().step, kBefore + 1);
      EXPECT_EQ(rest.steps, whole.steps);
      EXPECT_EQ(rest.reports.back().epoch, 1U);
      // At the end of an epoch some samples are left out, or come twice.
      const std::uint64_t same = tail == Tail::kUneven ? whole.steps : kFull;
      for (std::uint64_t i = kBefore; i < same; ++i)
        EXPECT_NEAR(losses(rest)[i - kBefore], losses(whole)[i], 1e-9) << i;
    }
  }
}

TEST_F(FitTest, FewerSamplesThanRanksAreRefused) {
  Runtime runtime;
  Trainer trainer{runtime, options("few", 3)};
  const auto refusal = [&](std::int64_t training) {
    return message_of<InvalidArgument>([&] { fit<TooFew>(trainer, {.batch = 2}, training); });
  };
  EXPECT_SAYS(refusal(2), "rank 0");
  EXPECT_SAYS(refusal(2), "the dataset has 2 samples, which are fewer than the 3 ranks");
  EXPECT_SAYS(refusal(30), "the validation data has 2 samples, which are fewer than the 3 ranks");
}

TEST_F(FitTest, WhatIsNoNumberEndsItBeforeAParameterFollows) {
  Runtime runtime;
  std::uint32_t tries = 0;
  const auto ends = [&]<class E>(E*, bool has_loss, bool clips, bool checks, FitStrategy strategy, std::size_t ranks) {
    TrainerOptions its = options("broken" + std::to_string(++tries), ranks);
    its.metric = "validation_score";
    its.save_every = 1;
    const std::filesystem::path saved = its.folder / "checkpoints";
    Trainer trainer{runtime, std::move(its)};
    const FitOptions how{.batch = 4, .epochs = 2, .strategy = strategy, .check_numbers = checks};
    const std::string text = message_of<E>([&] { fit<Broken>(trainer, how, has_loss, clips); });
    EXPECT_EQ(checkpoints_in(saved).at(0).moment.step, 3U) << text;
    return text;
  };
  const auto fails = [&](bool has_loss, bool clips, FitStrategy strategy) {
    return ends(static_cast<UserError*>(nullptr), has_loss, clips, false, strategy, 3);
  };
  const auto fails_in_gradient = [&](bool clips, FitStrategy strategy, std::size_t ranks) {
    return ends(static_cast<FailedPrecondition*>(nullptr), true, clips, !clips, strategy, ranks);
  };
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    for (const bool clips : {false, true}) {
      EXPECT_SAYS(fails(false, clips, each), "\"loss\" of rank 1 is no longer finite at step 4");
      EXPECT_SAYS(fails_in_gradient(clips, each, 3), "in step 4 the gradient of \"bias\"");
    }
  }
  EXPECT_SAYS(fails_in_gradient(false, FitStrategy::kCopies, 3), "on rank 1");
  EXPECT_SAYS(fails_in_gradient(false, FitStrategy::kCopies, 1), "in step 4 the gradient of \"bias\"");
}

TEST_F(FitTest, AGradientThatIsNoNumberIsInNoCheckpoint) {
  Runtime runtime;
  const auto fails = [&](const std::string& name, FitStrategy strategy, std::size_t ranks, bool checks) {
    TrainerOptions its = options(name, ranks);
    its.metric = "validation_score";
    its.save_every = 2;
    const std::filesystem::path saved = its.folder / "checkpoints";
    Trainer trainer{runtime, std::move(its)};
    const FitOptions how{.batch = 4, .epochs = 2, .strategy = strategy, .check_numbers = checks};
    const std::string text = message_of<FailedPrecondition>([&] { fit<Broken>(trainer, how, true, false); });
    EXPECT_EQ(checkpoints_in(saved).at(0).moment.step, 2U) << text;
    EXPECT_SAYS(text, "in step 4 the gradient of \"bias\"");
    return text;
  };
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    fails("poisoned" + std::to_string(static_cast<int>(each)), each, 3, false);
  }
  fails("alone", FitStrategy::kCopies, 1, false);
  // The error names the step of the whole training, also after the training has resumed.
  EXPECT_SAYS(fails("poisoned" + std::to_string(static_cast<int>(FitStrategy::kCopies)), FitStrategy::kCopies, 3, true),
              "on rank 1");
}

}  // namespace
}  // namespace pharos::ml::fitting
