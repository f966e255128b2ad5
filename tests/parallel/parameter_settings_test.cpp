// Optimizers whose parameters are not all trained alike, rules of the user's own, and tables of modules.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/module_summary.hpp>
#include <pharos/ml/optimizer.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

struct Net : torch::nn::Module {
  explicit Net(torch::Dtype type) {
    register_module("embedding", embedding);
    register_module("head", head);
    to(type);
  }
  Tensor loss(std::uint64_t step) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(step);
    const auto type = head->weight.scalar_type();
    const Tensor ids = torch::randint(0, 6, {8}, random, torch::kLong);
    return head(embedding(ids).tanh()).to(torch::kDouble).square().mean() + head->bias.sum().to(type) * 0.01;
  }

  torch::nn::Embedding embedding{6, 4};
  torch::nn::Linear head{4, 3};
};

/// Two nets with the same parameters.
struct Twins {
  explicit Twins(torch::Dtype type) : ours{std::make_shared<Net>(type)}, theirs{std::make_shared<Net>(type)} {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < ours->parameters().size(); ++i) theirs->parameters()[i].copy_(ours->parameters()[i]);
  }
  template <class Optimizer>
  static void train(Net& net, Optimizer& optimizer, std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      net.loss(step).backward();
      optimizer.step();
    }
  }
  void expect_alike(double tolerance) const {
    for (std::size_t i = 0; i < ours->parameters().size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours->parameters()[i], theirs->parameters()[i], tolerance, tolerance)) << i;
    }
  }

  std::shared_ptr<Net> ours;
  std::shared_ptr<Net> theirs;
};

/// What torch::optim::RMSprop does without momentum.
class RmsProp : public UpdateRule {
 public:
  double lr() const override { return 1e-2; }
  std::vector<std::string> names() const override { return {"square"}; }
  void update(const Tensor& values, const Tensor& gradient, std::span<const Tensor> kept,
              const Step& step) const override {
    const Tensor whole = gradient + step.weight_decay * values;
    kept[0].mul_(0.99).addcmul_(whole, whole, 0.01);
    values.addcdiv_(whole, kept[0].sqrt().add_(1e-8), -step.lr);
  }
};

class Refuses : public UpdateRule {
 public:
  double lr() const override { return 1; }
  void update(const Tensor&, const Tensor&, std::span<const Tensor>, const Step&) const override {
    throw std::domain_error{"this rule does not like the gradient"};
  }
};

TEST(ParameterSettingsTest, GroupsAreTorchs) {
  Twins nets{torch::kDouble};
  const auto settings = [](const WholeParameter& parameter) -> ParameterSettings {
    if (parameter.name.starts_with("embedding.")) return {.lr_factor = 0.1};
    return {.weight_decay = parameter.shape.size() >= 2 ? 0.2 : 0};
  };
  const auto groups = groups_of(*nets.ours, settings);
  ASSERT_EQ(groups.size(), 3U);
  Optimizer ours{groups, AdamW{.lr = 1e-2}};
  torch::optim::AdamW theirs{
      {torch::optim::OptimizerParamGroup{
           nets.theirs->embedding->parameters(),
           std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions{1e-3}.weight_decay(0))},
       torch::optim::OptimizerParamGroup{
           {nets.theirs->head->weight},
           std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions{1e-2}.weight_decay(0.2))},
       torch::optim::OptimizerParamGroup{
           {nets.theirs->head->bias},
           std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions{1e-2}.weight_decay(0))}}};
  Twins::train(*nets.ours, ours, 20);
  Twins::train(*nets.theirs, theirs, 20);
  nets.expect_alike(1e-12);
}

TEST(ParameterSettingsTest, AGroupMayHaveARuleOfItsOwnAndFollowsTheRate) {
  Twins nets{torch::kDouble};
  const auto settings = [](const WholeParameter& parameter) -> ParameterSettings {
    if (parameter.name.starts_with("embedding.")) return {.rule = Sgd{.lr = 0.5, .momentum = 0.9}};
    return {};
  };
  Optimizer ours{groups_of(*nets.ours, settings), AdamW{.lr = 1e-2}};
  torch::optim::AdamW adam{nets.theirs->head->parameters(), torch::optim::AdamWOptions{1e-2}.weight_decay(0)};
  torch::optim::SGD sgd{nets.theirs->embedding->parameters(), torch::optim::SGDOptions{0.5}.momentum(0.9)};
  struct Both {
    void zero_grad() {
      one.zero_grad();
      other.zero_grad();
    }
    void step() {
      one.step();
      other.step();
    }
    torch::optim::Optimizer& one;
    torch::optim::Optimizer& other;
  } theirs{adam, sgd};
  Twins::train(*nets.ours, ours, 10);
  Twins::train(*nets.theirs, theirs, 10);
  ours.set_lr(1e-3);  // a tenth, also for the rule of the embedding
  adam.param_groups()[0].options().set_lr(1e-3);
  sgd.param_groups()[0].options().set_lr(0.05);
  Twins::train(*nets.ours, ours, 10);
  Twins::train(*nets.theirs, theirs, 10);
  nets.expect_alike(1e-12);
  for (const Optimizer::State& each : ours.states()) {
    const bool is_embedding = each.parameter.sizes() == nets.ours->embedding->weight.sizes();
    EXPECT_EQ(each.names,
              is_embedding ? std::vector<std::string>{"velocity"} : (std::vector<std::string>{"mean", "square"}));
    EXPECT_EQ(each.values.size(), each.names.size());
  }
}

TEST(ParameterSettingsTest, ARuleOfTheUsersOwnIsARule) {
  Twins nets{torch::kDouble};
  Optimizer ours{groups_of(*nets.ours, 0.1), std::make_shared<RmsProp>()};
  torch::optim::RMSprop theirs{
      {torch::optim::OptimizerParamGroup{
           {nets.theirs->embedding->weight, nets.theirs->head->weight},
           std::make_unique<torch::optim::RMSpropOptions>(torch::optim::RMSpropOptions{1e-2}.weight_decay(0.1))},
       torch::optim::OptimizerParamGroup{{nets.theirs->head->bias},
                                         std::make_unique<torch::optim::RMSpropOptions>(1e-2)}}};
  Twins::train(*nets.ours, ours, 20);
  Twins::train(*nets.theirs, theirs, 20);
  nets.expect_alike(1e-12);
  EXPECT_EQ(ours.states()[0].steps, 20U);
}

TEST(ParameterSettingsTest, ARuleOfTheUsersOwnStepsTheFloatsOfHalves) {
  const Tensor half = torch::full({2, 3}, 1, torch::kBFloat16).requires_grad_();
  class Slow : public UpdateRule {
   public:
    double lr() const override { return 1e-4; }
    void update(const Tensor& values, const Tensor& gradient, std::span<const Tensor>,
                const Step& step) const override {
      EXPECT_EQ(values.scalar_type(), torch::kFloat);
      EXPECT_EQ(gradient.scalar_type(), torch::kFloat);
      EXPECT_EQ(values.sizes(), (std::vector<std::int64_t>{2, 3}));
      values.sub_(gradient, step.lr);
    }
  };
  Optimizer optimizer{{{.parameters = {half}}}, std::make_shared<Slow>()};
  for (int i = 0; i < 1000; ++i) {
    half.mutable_grad() = torch::ones({2, 3}, torch::kBFloat16);
    optimizer.step();
  }
  EXPECT_NEAR(half[0][0].item<float>(), 0.9, 0.004);  // each step alone is less than half the distance of neighbours
}

TEST(ModuleSummary, HasALineForEachPartWithParameters) {
  torch::nn::Sequential net{torch::nn::Linear(300, 20), torch::nn::Tanh(), torch::nn::Linear(20, 3)};
  net->parameters()[0].requires_grad_(false);
  net->register_parameter("own", torch::ones({}));
  EXPECT_EQ(summary_of(*net),
            "name      type            elements  parameters\n"
            "(itself)  Sequential             1  own 1\n"
            "0         Linear             6 020  weight 20 x 300, bias 20\n"
            "2         Linear                63  weight 3 x 20, bias 3\n"
            "6 084 elements in all, 84 of them trained; 23.8 KiB of parameters\n");
  // A part that comes twice counts once.
  const torch::nn::Linear tied{2, 2};
  EXPECT_SAYS(summary_of(*torch::nn::Sequential{tied, tied}), "\n6 elements in all");
}

TEST(ParameterSettingsTest, WhatARuleThrowsComesOut) {
  const Tensor one = torch::ones({3}).requires_grad_();
  one.mutable_grad() = torch::ones({3});
  Optimizer optimizer{{{.parameters = {one}}}, std::make_shared<Refuses>()};
  EXPECT_SAYS(message_of<std::domain_error>([&] { optimizer.step(); }), "does not like");
}

TEST(ParameterSettingsTest, ARateOfZeroHasNoFactorForAnotherRule) {
  const Tensor one = torch::ones({3}).requires_grad_();
  const std::vector<ParameterGroup> groups{{.parameters = {one}, .rule = Sgd{.lr = 1}}};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Optimizer{groups, AdamW{.lr = 0}}; }), "learning rate of 0");
}

}  // namespace
}  // namespace pharos::ml
