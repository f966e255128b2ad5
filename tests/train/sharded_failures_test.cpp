#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "nets.hpp"
#include "says.hpp"
#include "ways.hpp"

namespace pharos::ml {
namespace {

TEST(ShardedFailures, DifferentGraphsAreFound) {
  for (const Reach reach : {Reach::kMemory, Reach::kTcp}) {
    on_ranks({.reach = reach}, [&](Communicator& ranks) {
      const auto module = filled(std::make_shared<Layers>());
      Sharded sharded = fully_shard(*module, ranks);
      // As many operations of the same size: nothing but the units differs.
      const std::size_t second = ranks.rank() == 0 ? 1 : 2;
      Tensor x = numbers(1, {4, 6});
      const std::string message = message_of<FailedPrecondition>([&] {
        for (const std::size_t each : {std::size_t{0}, second}) x = module->layer(each, x);
        x.sum().backward();
      });
      EXPECT_SAYS(message, "different graphs in step 1");
      EXPECT_SAYS(message, "layers.1");
      EXPECT_SAYS(message, "layers.2");
    });
  }
}

/// A rank that goes away while another one's operator waits for its part: that computes with no numbers, and the next
/// hook throws.
TEST(ShardedFailures, AreThrownByTheNextHook) {
  for (const Reach reach : {Reach::kMemory, Reach::kTcp}) {
    on_ranks({.reach = reach}, [&](Communicator& ranks) {
      const auto module = filled(std::make_shared<Layers>());
      Sharded sharded = fully_shard(*module, ranks);
      if (ranks.rank() == 1) return ranks.abort("it has had enough");
      Tensor x = numbers(1, {4, 6});
      for (const std::size_t each : {0, 1, 2, 3, 4}) x = module->layer(each, x);
      EXPECT_TRUE(torch::isnan(x).all().item<bool>());
      const std::string message = message_of<Cancelled>([&] { x.sum().backward(); });
      EXPECT_SAYS(message, "it has had enough");
      EXPECT_EQ(message_of<Cancelled>([&] { sharded.check(); }), message);
      EXPECT_EQ(message_of<Cancelled>([&] { sharded.clip_norm(1); }), message);
    });
  }
}

TEST(ShardedFailures, AreToldWhenAModuleIsSharded) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto unsupported = [&](torch::nn::Module& module) {
      return message_of<Exception>([&] { fully_shard(module, ranks); });
    };
    const auto wrong = [&](torch::nn::Module& module, const ShardOptions& options = {}) {
      return message_of<InvalidArgument>([&] { fully_shard(module, ranks, options); });
    };
    const auto renorm = std::make_shared<Words>();
    renorm->words->options.max_norm(1.0);
    EXPECT_SAYS(unsupported(*renorm), "\"words\" cannot be sharded: an embedding with max_norm");

    const auto strided = std::make_shared<torch::nn::LinearImpl>(4, 3);
    strided->weight.set_data(torch::ones({4, 3}).t());
    EXPECT_SAYS(unsupported(*strided), "\"weight\" cannot be sharded: it is not contiguous");

    const auto trained = std::make_shared<torch::nn::LinearImpl>(4, 3);
    trained->forward(torch::ones({1, 4})).sum().backward();
    EXPECT_SAYS(unsupported(*trained), "\"weight\" cannot be sharded: it has a gradient already");

    const auto layers = std::make_shared<Layers>();
    const auto other = std::make_shared<torch::nn::LinearImpl>(4, 3);
    EXPECT_SAYS(wrong(*layers, {.blocks = {other}}), "block 0 of ShardOptions::blocks is not in the module");
    EXPECT_SAYS(wrong(*layers, {.blocks = {layers->layers.ptr(), layers->layers[1]}}), "have modules in common");
    EXPECT_SAYS(wrong(*layers, {.param = DType::kI32}), "does not compute in i32");

    const auto different = std::make_shared<torch::nn::LinearImpl>(4, 3 + ranks.rank());
    EXPECT_SAYS(wrong(*different), "ranks have different modules");
  });
}

/// An evaluation without gradients meets no hook: its numbers are none, and all that comes behind it throws.
TEST(ShardedFailures, OfEvaluationsAreThrownByTheStep) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    std::latch trained{1};
    on_ranks({}, [&](Communicator& ranks) {
      const Net net = two_forwards();
      Sharded sharded{*net.module, ranks, sharding, {}};
      Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
      net.loss(ranks.rank()).backward();
      if (ranks.rank() == 1) {
        trained.wait();
        return ranks.abort("it has had enough");
      }
      trained.count_down();
      {
        const torch::NoGradGuard no_grad;
        EXPECT_TRUE(std::isnan(net.loss(0).item<double>()));
      }
      const std::string message = message_of<Cancelled>([&] { optimizer.step(); });
      EXPECT_SAYS(message, "it has had enough");
      EXPECT_EQ(message_of<Cancelled>([&] { sharded.weigh(1); }), message);
      EXPECT_EQ(message_of<Cancelled>([&] { sharded.refresh(); }), message);
      EXPECT_EQ(message_of<Cancelled>([&] { net.loss(0).backward(); }), message);
    });
  }
}

/// Of what was gathered before somebody else than an Optimizer of groups() has changed it, only a part would be new:
/// here of what is touched first, and stays.
TEST(ShardedFailures, WhatOthersChangeIsNotMixedWithWhatItWas) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    for (const bool is_theirs : {true, false}) {
      for (const bool is_refreshed : {true, false}) {
        on_ranks({}, [&](Communicator& ranks) {
          const Net net = tied();
          const Net alone = tied();
          Sharded sharded{*net.module, ranks, sharding, {}};
          const AdamW rule{.lr = 0.1, .eps = 1e-3};
          const auto options = torch::optim::AdamWOptions{rule.lr}.eps(rule.eps).weight_decay(0);
          torch::optim::AdamW theirs{sharded.parameters(), options};
          Optimizer ours{{{.parameters = sharded.parameters()}}, rule};
          Optimizer reference{groups_of(*alone.module, 0), rule};
          net.loss(7).backward();
          alone.loss(7).backward();
          net.loss(8);
          is_theirs ? void(theirs.step()) : ours.step();
          reference.step();
          if (is_refreshed) sharded.refresh();
          const double loss = net.loss(9).item<double>();
          if (is_refreshed) {
            EXPECT_NEAR(loss, alone.loss(9).item<double>(), 1e-12);
            return sharded.check();
          }
          EXPECT_TRUE(std::isnan(loss));
          const std::string message = message_of<FailedPrecondition>([&] { sharded.check(); });
          EXPECT_SAYS(message, "\" was changed after it had been gathered");
          EXPECT_SAYS(message, "refresh()");
        });
      }
    }
  }
}

}  // namespace
}  // namespace pharos::ml
