#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/schedule.hpp>
#include <pharos/ml/training.hpp>

#include "optimizer/updates_on_device.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

std::vector<Tensor> parameters(torch::Dtype dtype) {
  torch::manual_seed(3);
  return {torch::randn({33, 7}, dtype).requires_grad_(), torch::randn({1}, dtype).requires_grad_(),
          torch::randn({5, 4}, dtype).t().detach().requires_grad_(), torch::randn({0}, dtype).requires_grad_(),
          torch::randn({70'001}, dtype).requires_grad_()};
}

/// Runs steps with gradients that depend only on the step. One parameter has no gradient in every third step.
void train(const std::vector<Tensor>& all, int steps, const std::function<void()>& step) {
  for (int i = 0; i < steps; ++i) {
    torch::manual_seed(100 + static_cast<std::uint64_t>(i));
    for (std::size_t k = 0; k < all.size(); ++k) {
      const Tensor gradient = torch::randn(all[k].sizes(), torch::kDouble).to(all[k].scalar_type());
      if (k == 1 && i % 3 == 2) {
        all[k].mutable_grad().reset();
      } else {
        all[k].mutable_grad() = gradient;
      }
    }
    step();
  }
}

void expect_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::allclose(a[i], b[i], tolerance, tolerance)) << i;
}

struct Kind {
  torch::Dtype dtype;
  double tolerance;
};
class OptimizerTest : public testing::TestWithParam<Kind> {
 protected:
  const std::vector<Tensor> theirs_ = parameters(GetParam().dtype);
  const std::vector<Tensor> ours_ = parameters(GetParam().dtype);

  void compare(torch::optim::Optimizer& their, const Rule& rule, double weight_decay) {
    Optimizer optimizer{{{.parameters = ours_, .weight_decay = weight_decay}}, rule};
    train(theirs_, 20, [&] { their.step(); });
    train(ours_, 20, [&] { optimizer.step(); });
    expect_close(theirs_, ours_, GetParam().tolerance);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerTest, testing::Values(Kind{torch::kDouble, 1e-12}, Kind{torch::kFloat, 2e-5}));

TEST_P(OptimizerTest, AdamWIsTorchs) {
  torch::optim::AdamW their{theirs_, torch::optim::AdamWOptions{3e-3}.weight_decay(0.1).betas({0.8, 0.95}).eps(1e-6)};
  compare(their, AdamW{.lr = 3e-3, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6}, 0.1);
}

TEST_P(OptimizerTest, SgdIsTorchsWithAndWithoutMomentum) {
  torch::optim::SGD plain{theirs_, torch::optim::SGDOptions{1e-2}.weight_decay(0.1)};
  compare(plain, Sgd{.lr = 1e-2}, 0.1);
}
TEST_P(OptimizerTest, MomentumIsTorchs) {
  torch::optim::SGD their{theirs_, torch::optim::SGDOptions{1e-2}.weight_decay(0.1).momentum(0.9)};
  compare(their, Sgd{.lr = 1e-2, .momentum = 0.9}, 0.1);
}
TEST_P(OptimizerTest, NesterovIsTorchs) {
  torch::optim::SGD their{theirs_, torch::optim::SGDOptions{1e-2}.weight_decay(0.1).momentum(0.9).nesterov(true)};
  compare(their, Sgd{.lr = 1e-2, .momentum = 0.9, .nesterov = true}, 0.1);
}

TEST_P(OptimizerTest, LionIsWhatItsAuthorsWrote) {
  std::vector<Tensor> means;
  for (const Tensor& each : theirs_) means.push_back(torch::zeros_like(each));
  Optimizer optimizer{{{.parameters = ours_, .weight_decay = 0.1}}, Lion{.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99}};
  train(theirs_, 20, [&] {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < theirs_.size(); ++i) {
      const Tensor gradient = theirs_[i].grad();
      if (!gradient.defined()) continue;
      theirs_[i].mul_(1 - 1e-2 * 0.1).sub_(1e-2 * (0.9 * means[i] + 0.1 * gradient).sign());
      means[i].mul_(0.99).add_(0.01 * gradient);
    }
  });
  train(ours_, 20, [&] { optimizer.step(); });
  expect_close(theirs_, ours_, GetParam().tolerance);
}

// The operators of a step on a device run on the CPU, too.
TEST_P(OptimizerTest, ADevicesStepsAreTheCpus) {
  const std::vector<Rule> rules{AdamW{.lr = 1e-2, .eps = 1e-5}, Sgd{.lr = 1e-2}, Sgd{.lr = 1e-2, .momentum = 0.9},
                                Sgd{.lr = 1e-2, .momentum = 0.9, .nesterov = true}, Lion{.lr = 1e-3}};
  constexpr double kDecay = 0.1;
  for (const Rule& rule : rules) {
    const std::vector<Tensor> ours = parameters(GetParam().dtype);
    const std::vector<Tensor> theirs = parameters(GetParam().dtype);
    Optimizer optimizer{{{.parameters = ours, .weight_decay = kDecay}}, rule};
    train(ours, 20, [&] { optimizer.step(); });

    std::vector<std::uint64_t> steps(theirs.size());
    std::vector<std::vector<Tensor>> kept(names_of(rule).size());
    for (auto& each : kept) {
      for (const Tensor& parameter : theirs) each.push_back(torch::zeros({parameter.numel()}, GetParam().dtype));
    }
    train(theirs, 20, [&] {
      const torch::NoGradGuard no_grad;
      DeviceRun run;
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        if (!theirs[i].grad().defined()) continue;
        run.values.push_back(theirs[i].as_strided({theirs[i].numel()}, {1}));
        run.gradients.push_back(
            torch::empty_like(theirs[i]).copy_(theirs[i].grad()).as_strided({theirs[i].numel()}, {1}));
        for (std::size_t k = 0; k < kept.size(); ++k) run.kept[k].push_back(kept[k][i]);
        run.steps.push_back(++steps[i]);
      }
      update_on_device(rule, lr_of(rule), kDecay, run);
    });
    expect_close(theirs, ours, GetParam().tolerance);
  }
}

TEST(OptimizersTest, WhatIsNoNumberStaysNoneOnADevice) {
  DeviceRun run{{torch::ones({3})}, {torch::tensor({1.0F, NAN, -1.0F})}, {{torch::zeros({3})}, {}}, {1}};
  update_on_device(Lion{}, 0.5, 0, run);
  EXPECT_EQ(run.values[0][0].item<float>(), 0.5F);
  EXPECT_TRUE(std::isnan(run.values[0][1].item<float>()));
  EXPECT_EQ(run.values[0][2].item<float>(), 1.5F);
}

TEST(OptimizersTest, HalfPrecisionParametersLoseNothingThatIsSmall) {
  const std::vector<Tensor> half{torch::ones({100}, torch::kBFloat16).requires_grad_()};
  Optimizer optimizer{{{.parameters = half}}, Sgd{.lr = 1e-4}};
  for (int i = 0; i < 1000; ++i) {
    half[0].mutable_grad() = torch::ones({100}, torch::kBFloat16);
    optimizer.step();
  }
  // Each step alone is smaller than the distance of neighbouring bfloat16 numbers at 1.
  EXPECT_NEAR(half[0][0].item<float>(), 0.9, 0.004);
  EXPECT_EQ(half[0].scalar_type(), torch::kBFloat16);
}

TEST(OptimizersTest, WhatOthersWriteToHalfPrecisionParametersCounts) {
  const std::vector<Tensor> half{torch::ones({3}, torch::kBFloat16).requires_grad_()};
  Optimizer optimizer{{{.parameters = half}}, Sgd{.lr = 1e-4}};
  const auto step = [&] {
    half[0].mutable_grad() = torch::ones({3}, torch::kBFloat16);
    optimizer.step();
  };
  for (int i = 0; i < 10; ++i) step();
  {
    const torch::NoGradGuard no_grad;
    half[0][1].fill_(4);  // as a broadcast or a checkpoint does
  }
  step();
  EXPECT_EQ(half[0][1].item<float>(), 4);
  EXPECT_FLOAT_EQ(optimizer.states()[0].whole[1].item<float>(), 4 - 1e-4F);
  EXPECT_NEAR(optimizer.states()[0].whole[0].item<float>(), 1 - 11e-4, 1e-6);
}

TEST(OptimizersTest, WhatIsThereTwiceIsTrainedOnce) {
  const Tensor tied = torch::ones({3}).requires_grad_();
  const std::vector<Tensor> all{tied, tied};
  Optimizer optimizer{{{.parameters = all}, {.parameters = all, .weight_decay = 1}}, Sgd{.lr = 1}};
  EXPECT_EQ(optimizer.states().size(), 1U);
  GradScaler scaler{{.begin = 8}};
  tied.mutable_grad() = torch::full({3}, 2.0F);
  EXPECT_TRUE(scaler.unscale(all));
  EXPECT_EQ(tied.grad()[0].item<float>(), 0.25F);
  EXPECT_NEAR(clip_norm(all, 100), 0.25 * std::sqrt(3.0), 1e-6);
  optimizer.step();
  EXPECT_EQ(tied[0].item<float>(), 0.75F);
}

TEST(OptimizersTest, NormsAndBiasesDoNotDecay) {
  torch::nn::Sequential model{torch::nn::Linear(4, 4), torch::nn::LayerNorm(torch::nn::LayerNormOptions({4}))};
  model->parameters()[1].requires_grad_(true);
  const auto groups = groups_of(*model, 0.5);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].parameters.size(), 1U);
  EXPECT_EQ(groups[0].weight_decay, 0.5);
  EXPECT_EQ(groups[1].parameters.size(), 3U);
  EXPECT_EQ(groups[1].weight_decay, 0);
  Optimizer optimizer{groups, AdamW{.lr = 0.1}};
  const Tensor weight = model->parameters()[0].detach().clone();
  const Tensor bias = model->parameters()[1].detach().clone();
  for (auto& each : model->parameters()) each.mutable_grad() = torch::zeros_like(each);
  optimizer.step();
  EXPECT_TRUE(torch::allclose(model->parameters()[0], weight * 0.95));
  EXPECT_TRUE(torch::equal(model->parameters()[1], bias));
}

TEST(OptimizersTest, WhatIsKeptIsNamedAndMayBeWritten) {
  const std::vector<Tensor> one = parameters(torch::kFloat);
  const std::vector<Tensor> other = parameters(torch::kFloat);
  Optimizer first{{{.parameters = one}}, AdamW{}};
  train(one, 5, [&] { first.step(); });
  Optimizer second{{{.parameters = other}}, AdamW{}};
  EXPECT_EQ(first.states()[0].names, (std::vector<std::string>{"mean", "square"}));
  for (std::size_t i = 0; i < one.size(); ++i) {
    const torch::NoGradGuard no_grad;
    other[i].copy_(one[i]);
    auto& to = second.states()[i];
    to.steps = first.states()[i].steps;
    for (std::size_t k = 0; k < 2; ++k) to.values[k].copy_(first.states()[i].values[k]);
  }
  train(one, 5, [&] { first.step(); });
  train(other, 5, [&] { second.step(); });
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], other[i]));
}

/// The gradient would belong to parameters that have been changed since.
TEST(OptimizersTest, GraphsFromBeforeAStepAreOfNoUse) {
  for (const torch::Dtype type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
    const Tensor all = torch::ones({3}, type).requires_grad_();
    Optimizer optimizer{{{.parameters = {all}}}, Sgd{.lr = 1}};
    const Tensor before = all.pow(2).sum();
    all.pow(2).sum().backward();
    optimizer.step();
    EXPECT_SAYS(message_of<c10::Error>([&] { before.backward(); }), "modified by an inplace operation");
  }
}

TEST(OptimizersTest, NothingIsChangedIfSomebodyObjectsBefore) {
  const Tensor all = torch::ones({3}).requires_grad_();
  const auto object = [] { throw std::runtime_error{"not now"}; };
  Optimizer optimizer{{{.parameters = {all}}, {.before_step = object}}, Sgd{.lr = 1}};
  all.mutable_grad() = torch::ones({3});
  EXPECT_SAYS(message_of<std::runtime_error>([&] { optimizer.step(); }), "not now");
  EXPECT_TRUE(torch::equal(all, torch::ones({3})));
}

TEST(OptimizersTest, WhatCannotBeTrainedIsRefused) {
  const Tensor gaps = torch::zeros({4, 4}).slice(1, 0, 2);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Optimizer({{.parameters = {gaps}}}, AdamW{}); }), "without gaps");
  const Tensor whole = torch::zeros({4}, torch::kInt);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Optimizer({{.parameters = {whole}}}, AdamW{}); }), "cannot be trained");
}

TEST(SchedulesTest, GoWhereTheySay) {
  EXPECT_EQ(constant()(7), 1);
  EXPECT_EQ(linear(10, 0.5)(5), 0.75);
  EXPECT_EQ(linear(10)(11), 0);
  EXPECT_NEAR(cosine(10, 0.1)(5), 0.55, 1e-15);
  EXPECT_NEAR(cosine(10)(2), 0.5 * (1 + std::cos(std::numbers::pi * 0.2)), 1e-15);
  EXPECT_EQ(cosine(10, 0.1)(10), 0.1);
  EXPECT_EQ(cosine(10, 0.1)(1'000'000), 0.1);
  EXPECT_EQ(polynomial(10, 2, 0.1)(5), 0.1 + 0.9 * 0.25);
  const auto warm = warm_up(4, linear(10));
  EXPECT_EQ(warm(0), 0.2);
  EXPECT_EQ(warm(3), 0.8);
  EXPECT_EQ(warm(4), 1);
  EXPECT_EQ(warm(9), 0.5);
  const auto cycle = one_cycle(100, 0.3, 0.04, 0.001);
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] { one_cycle(100, share, 0.04, 0.001); }), "share_up");
  }
  EXPECT_NEAR(cycle(0), 0.04, 1e-12);
  EXPECT_EQ(cycle(30), 1);
  EXPECT_NEAR(cycle(100), 0.001, 1e-12);
  EXPECT_GT(cycle(20), cycle(10));
  EXPECT_LT(cycle(60), cycle(50));
  EXPECT_EQ(linear(0, 0.5)(0), 0.5);
}

TEST(TrainingTest, ClippingShortensTheWholeAndSaysHowLongItWas) {
  std::vector<Tensor> all{torch::zeros({2}).requires_grad_(), torch::zeros({1}).requires_grad_(), torch::zeros({3})};
  all[0].mutable_grad() = torch::tensor({3.0F, 0.0F});
  all[1].mutable_grad() = torch::tensor({4.0F});
  EXPECT_EQ(clip_norm(all, 10), 5);
  EXPECT_EQ(all[1].grad().item<float>(), 4);
  EXPECT_EQ(clip_norm(all, 1), 5);
  EXPECT_FLOAT_EQ(all[1].grad().item<float>(), 0.8F);
  clip_values(all, 0.5);
  EXPECT_FLOAT_EQ(all[0].grad()[0].item<float>(), 0.5F);
  all[1].mutable_grad() = torch::tensor({std::numeric_limits<float>::infinity()});
  EXPECT_EQ(clip_norm(all, 1), std::numeric_limits<double>::infinity());
  EXPECT_FLOAT_EQ(all[0].grad()[0].item<float>(), 0.5F);
}

TEST(TrainingTest, TheScaleFollowsWhatGradientsBear) {
  GradScaler scaler{{.begin = 8, .steps_until_growth = 2}};
  std::vector<Tensor> all{torch::ones({2}).requires_grad_()};
  const auto step = [&](float factor) {
    all[0].mutable_grad().reset();
    scaler.scale((all[0] * factor).sum()).backward();
    return scaler.unscale(all);
  };
  EXPECT_TRUE(step(3));
  EXPECT_EQ(all[0].grad()[0].item<float>(), 3);
  EXPECT_TRUE(step(3));
  EXPECT_EQ(scaler.now(), 16);
  EXPECT_FALSE(step(std::numeric_limits<float>::max()));
  EXPECT_EQ(scaler.now(), 8);
}

TEST(TrainingTest, WhatIsSmallInHalfPrecisionIsUnscaledAsItIs) {
  const std::vector<Tensor> all{torch::zeros({2}, torch::kHalf).requires_grad_()};
  Optimizer optimizer{{{.parameters = all}}, Sgd{.lr = 1e4}};
  GradScaler scaler;
  scaler.scale((all[0].to(torch::kFloat) * 1e-9F).sum()).backward();
  EXPECT_TRUE(scaler.unscale(all));
  EXPECT_NEAR(clip_norm(all, 1), 1e-9 * std::sqrt(2.0), 1e-11);
  optimizer.step();
  EXPECT_NEAR(all[0][0].item<float>(), -1e-5, 1e-7);
}

TEST(TrainingTest, TheMovingMeanOfHalvesMovesByLittle) {
  torch::nn::Linear linear{2, 2};
  linear->to(torch::kBFloat16);
  {
    const torch::NoGradGuard no_grad;
    linear->weight.fill_(1);
  }
  Ema ema{*linear, 0.999};
  {
    const torch::NoGradGuard no_grad;
    linear->weight.fill_(2);
  }
  for (int i = 0; i < 1000; ++i) ema.update();
  {
    const auto applied = ema.apply();
    EXPECT_NEAR(linear->weight[0][0].item<float>(), 2 - std::pow(0.999, 1000), 0.01);
  }
  EXPECT_EQ(linear->weight[0][0].item<float>(), 2);
}

TEST(TrainingTest, TheMovingMeanIsLentToTheModule) {
  torch::nn::BatchNorm1d norm{2};
  Ema ema{*norm, 0.75};
  {
    const torch::NoGradGuard no_grad;
    norm->weight.fill_(5);
    norm->running_mean.fill_(7);
  }
  ema.update();
  {
    const auto applied = ema.apply();
    EXPECT_EQ(norm->weight[0].item<float>(), 2);
    EXPECT_EQ(norm->running_mean[0].item<float>(), 7);
  }
  EXPECT_EQ(norm->weight[0].item<float>(), 5);
}

}  // namespace
}  // namespace pharos::ml
