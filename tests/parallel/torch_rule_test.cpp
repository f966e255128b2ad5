// The optimizers of libtorch as rules: the same bits as libtorch's own.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/torch_rule.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

/// A step may be told that a parameter has no gradient.
constexpr std::uint64_t kHeadRests = 3;

struct SmallNet : torch::nn::Module {
  explicit SmallNet(torch::Dtype type) {
    register_module("embedding", embedding);
    register_module("head", head);
    to(type);
  }
  Tensor loss(std::uint64_t step) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(step);
    const Tensor ids = torch::randint(0, 6, {8}, random, torch::kLong);
    const Tensor hidden = embedding(ids).tanh();
    return step == kHeadRests ? hidden.square().mean() : head(hidden).square().mean();
  }

  torch::nn::Embedding embedding{6, 4};
  torch::nn::Linear head{4, 3};
};

template <class Theirs, class Options>
void expect_the_same_bits(const Options& options) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    SmallNet ours{type};
    SmallNet theirs{type};
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < ours.parameters().size(); ++i) theirs.parameters()[i].copy_(ours.parameters()[i]);
    }
    Optimizer rule{groups_of(ours, 0), torch_rule(options)};
    Theirs plain{theirs.parameters(), options};
    for (std::uint64_t step = 0; step < 12; ++step) {
      const double lr = options.lr() * (step < 6 ? 1 : 0.1);
      rule.set_lr(lr);
      plain.param_groups()[0].options().set_lr(lr);
      rule.zero_grad();
      plain.zero_grad();
      ours.loss(step).backward();
      theirs.loss(step).backward();
      rule.step();
      plain.step();
      for (std::size_t i = 0; i < ours.parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(ours.parameters()[i], theirs.parameters()[i])) << "step " << step << ", tensor " << i;
      }
    }
  }
}

TEST(TorchRule, HasTheBitsOfSgd) {
  using Options = torch::optim::SGDOptions;
  expect_the_same_bits<torch::optim::SGD>(Options{0.1}.weight_decay(0.01));
  expect_the_same_bits<torch::optim::SGD>(Options{0.1}.momentum(0.9).dampening(0.3));
  expect_the_same_bits<torch::optim::SGD>(Options{0.1}.momentum(0.9).nesterov(true).weight_decay(0.01));
}

TEST(TorchRule, HasTheBitsOfAdam) {
  expect_the_same_bits<torch::optim::Adam>(torch::optim::AdamOptions{0.01}.weight_decay(0.1));
  expect_the_same_bits<torch::optim::Adam>(torch::optim::AdamOptions{0.01}.betas({0.8, 0.95}).amsgrad(true));
  expect_the_same_bits<torch::optim::AdamW>(torch::optim::AdamWOptions{0.01}.weight_decay(0.1));
  expect_the_same_bits<torch::optim::AdamW>(torch::optim::AdamWOptions{0.01}.eps(1e-4).amsgrad(true));
}

TEST(TorchRule, HasTheBitsOfRmsProp) {
  using Options = torch::optim::RMSpropOptions;
  expect_the_same_bits<torch::optim::RMSprop>(Options{0.01}.weight_decay(0.1));
  expect_the_same_bits<torch::optim::RMSprop>(Options{0.01}.momentum(0.9));
  expect_the_same_bits<torch::optim::RMSprop>(Options{0.01}.momentum(0.9).centered(true));
  expect_the_same_bits<torch::optim::RMSprop>(Options{0.01}.centered(true));
}

TEST(TorchRule, HasTheBitsOfAdagrad) {
  using Options = torch::optim::AdagradOptions;
  expect_the_same_bits<torch::optim::Adagrad>(Options{0.1}.lr_decay(0.1).weight_decay(0.01));
  expect_the_same_bits<torch::optim::Adagrad>(Options{0.1}.initial_accumulator_value(0.5));
}

TEST(TorchRule, KeepsWhatCheckpointsNameAsLibtorchDoes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(torch_rule(torch::optim::SGDOptions{0.1})->names(), Names{});
  EXPECT_EQ(torch_rule(torch::optim::SGDOptions{0.1}.momentum(0.9))->names(), Names{"momentum_buffer"});
  EXPECT_EQ(torch_rule(torch::optim::AdamOptions{}.amsgrad(true))->names(),
            (Names{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}));
  EXPECT_EQ(torch_rule(torch::optim::RMSpropOptions{}.centered(true))->names(), (Names{"square_avg", "grad_avg"}));
  EXPECT_EQ(torch_rule(torch::optim::AdagradOptions{})->names(), Names{"sum"});
}

TEST(TorchRule, AddsTheDecayOfAGroup) {
  const Tensor one = torch::ones({2, 2}).requires_grad_();
  Optimizer optimizer{{{.parameters = {one}, .weight_decay = 0.25}},
                      torch_rule(torch::optim::SGDOptions{1}.weight_decay(0.5))};
  one.mutable_grad() = torch::zeros({2, 2});
  optimizer.step();
  EXPECT_TRUE(torch::equal(one, torch::full({2, 2}, 0.25)));
}

TEST(TorchRule, StepsTheFloatsOfHalves) {
  const Tensor half = torch::full({2, 3}, 1, torch::kBFloat16).requires_grad_();
  Optimizer optimizer{{{.parameters = {half}}}, torch_rule(torch::optim::SGDOptions{1e-4})};
  for (int i = 0; i < 1000; ++i) {
    half.mutable_grad() = torch::ones({2, 3}, torch::kBFloat16);
    optimizer.step();
  }
  EXPECT_NEAR(half[0][0].item<float>(), 0.9, 0.004);  // each step alone is less than half the distance of neighbours
}

TEST(TorchRule, OptionsThatMakeNoSenseAreRefusedAsByLibtorch) {
  const std::string text = message_of<c10::Error>([] { torch_rule(torch::optim::SGDOptions{0.1}.nesterov(true)); });
  EXPECT_SAYS(text, "Nesterov momentum requires a momentum");
}

}  // namespace
}  // namespace pharos::ml
