// Learners that compute in half precision: small gradients count, and too large ones cost a step and no more.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "demand.hpp"
#include "fitting.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// Fits a line to points. All steps have all points, so a step that changes no parameter shows in the next loss. The
/// gradients are `factor` times those of the mean square, and the steps are those of the mean square.
struct Steepness : Learner {
  static constexpr std::int64_t kPoints = 16;
  static constexpr float kNone = 0;  // gradients that are no numbers

  Steepness(float factor, bool is_half) : factor_{factor}, is_half_{is_half} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    const Tensor x = torch::linspace(-1, 1, kPoints).view({-1, 1});
    return rows_of({{"x", array_of(x)}, {"y", array_of(2 * x + 1)}});
  }
  Tensor training_step(const Batch& batch) override {
    const Tensor out = net_->forward(tensor_of(batch["x"]));
    demand(out.scalar_type() == (is_half_ ? torch::kHalf : torch::kFloat), "it computes in that precision");
    if (factor_ == kNone) out.register_hook([](const Tensor& gradient) { return gradient * NAN; });
    const Tensor mean = (out.to(torch::kFloat) - tensor_of(batch["y"])).square().mean();
    return factor_ == kNone ? mean : mean * factor_;
  }
  Optimization configure_optimizers() override { return {.rule = Sgd{.lr = factor_ == kNone ? 1 : 0.2 / factor_}}; }

 private:
  const float factor_;
  const bool is_half_;
  torch::nn::Linear net_{1, 1};
};

namespace {

constexpr float kSmall = 1e-7F;  // its gradients are 0 in half precision
constexpr float kLarge = 1e3F;   // its gradients are too large for the first scale
constexpr std::uint64_t kSteps = 20;

class FitPrecisionTest : public FitTest {
 protected:
  TrainResult train(Runtime& runtime, const std::string& name, std::size_t ranks, float factor, Precision precision,
                    FitStrategy strategy = FitStrategy::kCopies, std::uint64_t steps = kSteps) {
    TrainerOptions its = options(name, ranks);
    its.save_every = 1;
    Trainer trainer{runtime, std::move(its)};
    const FitOptions how{
        .batch = Steepness::kPoints / ranks, .epochs = 0, .steps = steps, .strategy = strategy, .precision = precision};
    return fit<Steepness>(trainer, how, factor, precision == Precision::kFp16);
  }
  static std::vector<double> scales(const TrainResult& result) {
    std::vector<double> scales;
    for (const TrainReport& each : result.reports) scales.push_back(*each.metrics.find("loss_scale"));
    return scales;
  }
};

TEST_F(FitPrecisionTest, SmallGradientsCountInHalfPrecision) {
  Runtime runtime;
  const std::vector<double> floats = losses(train(runtime, "floats", 1, kSmall, Precision::kFloat));
  const std::vector<double> halves = losses(train(runtime, "halves", 1, kSmall, Precision::kFp16));
  ASSERT_EQ(floats.size(), kSteps);
  ASSERT_EQ(halves.size(), kSteps);
  EXPECT_LT(floats.back(), 0.1 * floats.front());
  for (std::size_t i = 0; i < kSteps; ++i) EXPECT_NEAR(halves[i], floats[i], 0.01 * floats[0]) << i;
}

TEST_F(FitPrecisionTest, AStepWithTooLargeGradientsIsLeftOutByAllRanks) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const std::vector<double> floats = losses(train(runtime, "floats", 1, kLarge, Precision::kFloat));
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    const std::string name = "large" + std::to_string(static_cast<int>(each));
    const TrainResult result = train(runtime, name, 2, kLarge, Precision::kFp16, each);
    const std::vector<double> loss = losses(result);
    const std::vector<double> scale = scales(result);
    ASSERT_EQ(loss.size(), kSteps);
    EXPECT_EQ(scale[0], 65536);
    std::size_t left_out = 0;
    while (left_out + 1 < kSteps && scale[left_out + 1] == scale[left_out] / 2) {
      EXPECT_NEAR(loss[left_out + 1], loss[left_out], 1e-5 * loss[left_out]) << left_out;
      ++left_out;
    }
    EXPECT_GE(left_out, 3U);
    for (std::size_t i = left_out; i < kSteps; ++i) {
      EXPECT_EQ(scale[i], scale[left_out]) << i;
      EXPECT_NEAR(loss[i], floats[i - left_out], 0.01 * floats[0]) << i;
    }
  }
}

TEST_F(FitPrecisionTest, TheScaleIsInTheCheckpoint) {
  Runtime runtime;
  const TrainResult whole = train(runtime, "whole", 2, kLarge, Precision::kFp16);
  const TrainResult begun = train(runtime, "begun", 2, kLarge, Precision::kFp16, FitStrategy::kCopies, 3);
  EXPECT_EQ(begun.steps, 3U);
  const TrainResult rest = train(runtime, "begun", 2, kLarge, Precision::kFp16);
  ASSERT_EQ(rest.reports.front().step, 4U);
  EXPECT_LT(scales(rest).front(), 65536);
  for (std::size_t i = 3; i < kSteps; ++i) {
    EXPECT_EQ(scales(rest)[i - 3], scales(whole)[i]) << i;
    EXPECT_EQ(losses(rest)[i - 3], losses(whole)[i]) << i;
  }
}

TEST_F(FitPrecisionTest, GradientsThatNoScaleMakesFiniteEndTheTraining) {
  Runtime runtime;
  const auto fails = [&] { train(runtime, "none", 2, Steepness::kNone, Precision::kFp16, FitStrategy::kCopies, 40); };
  const std::string text = message_of<FailedPrecondition>(fails);
  EXPECT_SAYS(text, "in step 18 the gradient of \"weight\" has elements that are not finite");
}

TEST_F(FitPrecisionTest, WhatDoesNotGoWithHalfPrecisionIsRefused) {
  Runtime runtime;
  Trainer trainer{runtime, options("refused", 1)};
  FitOptions how{.steps = 1, .precision = Precision::kFp16, .check_numbers = true};
  const auto refusal = [&] { return message_of<InvalidArgument>([&] { fit<Steepness>(trainer, how, 1.0F, true); }); };
  EXPECT_SAYS(refusal(), "does not go together with FitOptions::check_numbers");
  how.check_numbers = false;
  how.bf16 = true;
  EXPECT_SAYS(refusal(), "FitOptions::bf16");
}

}  // namespace
}  // namespace pharos::ml::fitting
