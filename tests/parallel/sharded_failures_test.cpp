#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/module_state.hpp>
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
      // Both ranks begin equally many operations of the same sizes. Only the units differ.
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

/// One rank leaves a layer out in a later step, so its operations do not match those of the other ranks.
TEST(ShardedFailures, ThatALayerWasLeftOutIsFoundWithAUnit) {
  for (const Reach reach : {Reach::kMemory, Reach::kTcp}) {
    on_ranks({.reach = reach}, [&](Communicator& ranks) {
      const auto module = filled(std::make_shared<Layers>());
      Sharded sharded = fully_shard(*module, ranks);
      const auto backward = [&](std::size_t left_out) {
        Tensor x = numbers(ranks.rank(), {4, 6});
        for (std::size_t each = 0; each < 5; ++each) {
          if (each != left_out) x = module->layer(each, x);
        }
        x.pow(2).mean().backward();
      };
      for (int step = 0; step < 2; ++step) backward(5);
      const auto leave_out = [&] { backward(ranks.rank() == 0 ? 5 : 2); };
      const std::string message =
          reach == Reach::kMemory ? message_of<FailedPrecondition>(leave_out) : message_of<InvalidArgument>(leave_out);
      EXPECT_SAYS(message, "\"layers.");
    });
  }
}

/// Different units in an evaluation are found too, even if a step comes before the next backward.
TEST(ShardedFailures, DifferentGraphsOfAnEvaluationAreFoundByTheNextBackward) {
  on_ranks({}, [&](Communicator& ranks) {
    const Net net = two_forwards();
    const auto module = std::static_pointer_cast<Layers>(net.module);
    Sharded sharded = fully_shard(*module, ranks);
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
    net.loss(0).backward();
    {
      const torch::NoGradGuard no_grad;
      module->layer(ranks.rank() == 0 ? 1 : 2, numbers(1, {4, 6}));
    }
    optimizer.step();
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { net.loss(1).backward(); }), "different graphs in step 2");
  });
}

/// A rank goes away while the operator of another rank waits for its part. That operator computes with NaNs, and the
/// next hook throws.
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
    const auto lone = std::make_shared<torch::nn::EmbeddingBagImpl>(torch::nn::EmbeddingBagOptions(5, 3).max_norm(1.0));
    EXPECT_SAYS(unsupported(*lone), "the module cannot be sharded: an embedding with max_norm");

    const auto same = std::make_shared<Layers>();
    same->layers[1]->as<torch::nn::Linear>()->weight.set_data(
        same->layers[3]->as<torch::nn::Linear>()->weight.detach());
    EXPECT_SAYS(unsupported(*same), "\"layers.1.weight\"");
    EXPECT_SAYS(unsupported(*same), "\"layers.3.weight\"");
    EXPECT_SAYS(unsupported(*same), "cannot be sharded: they are two tensors in the same memory");

    for (const Sharding sharding : {Sharding::kParameters, Sharding::kOptimizer}) {
      const auto own = std::make_shared<Layers>();
      const Sharded first{*own, ranks, sharding, {}};
      EXPECT_SAYS(unsupported(*own), "cannot be sharded: its gradient is handled already");
    }

    const auto strided = std::make_shared<torch::nn::LinearImpl>(4, 3);
    strided->weight.set_data(torch::ones({4, 3}).t());
    EXPECT_SAYS(unsupported(*strided), "\"weight\" cannot be sharded: it is not contiguous");

    const auto trained = std::make_shared<torch::nn::LinearImpl>(4, 3);
    trained->forward(torch::ones({1, 4})).sum().backward();
    EXPECT_SAYS(unsupported(*trained), "\"weight\" cannot be sharded: it has a gradient already");

    const auto with = [&](const Tensor& parameter, const Tensor& buffer) {
      auto module = std::make_shared<torch::nn::Module>();
      module->register_parameter("own", parameter, parameter.requires_grad());
      module->register_buffer("kept", buffer);
      return module;
    };
    const Tensor real = torch::ones({3});
    const Tensor elsewhere = torch::ones({3}, torch::kMeta);
    EXPECT_SAYS(wrong(*with(elsewhere, real)), "\"own\" is on meta");
    EXPECT_SAYS(wrong(*with(real, elsewhere)), "\"kept\" is on meta");
    EXPECT_SAYS(unsupported(*with(torch::ones({3}, torch::kComplexFloat), real)),
                "\"own\" cannot be sharded: it is ComplexFloat");
    EXPECT_SAYS(unsupported(*with(torch::ones({3}).requires_grad_() * 2, real)),
                "\"own\" cannot be sharded: it is computed");

    const auto layers = std::make_shared<Layers>();
    const auto other = std::make_shared<torch::nn::LinearImpl>(4, 3);
    EXPECT_SAYS(wrong(*layers, {.blocks = {other}}), "block 0 of ShardOptions::blocks is not in the module");
    EXPECT_SAYS(wrong(*layers, {.blocks = {layers->layers.ptr(), layers->layers[1]}}), "have modules in common");
    EXPECT_SAYS(wrong(*layers, {.param = DType::kI32}), "cannot have the type i32");

    const auto different = std::make_shared<torch::nn::LinearImpl>(4, 3 + ranks.rank());
    EXPECT_SAYS(wrong(*different), "ranks have different modules");

    const auto list = std::make_shared<Layers>();
    const std::size_t first = ranks.rank();
    EXPECT_SAYS(wrong(*list, {.blocks = {list->layers[first], list->layers[1 - first]}}),
                "rank 0 has the unit \"layers.0\" of 42 Float in Float, gradients in Float where rank 1 has the unit "
                "\"layers.1\"");
    EXPECT_SAYS(wrong(*list, {.reshard_after_forward = ranks.rank() == 0}), "without reshard_after_forward");
  });
}

/// The other ranks do not wait for a rank that has refused its module.
TEST(ShardedFailures, OfOneRanksModuleAreToldToAll) {
  on_ranks({.ranks = 3}, [&](Communicator& ranks) {
    const auto module = std::make_shared<torch::nn::LinearImpl>(4, 3);
    if (ranks.rank() == 1) module->forward(torch::ones({1, 4})).sum().backward();
    const std::string message = message_of<Exception>([&] { fully_shard(*module, ranks); });
    EXPECT_SAYS(message, "\"weight\" cannot be sharded: it has a gradient already");
    if (ranks.rank() != 1) {
      EXPECT_SAYS(message, "rank 1: ");
    }
  });
}

/// Written values would be lost when the next unit's parameters are gathered in the same memory.
TEST(ShardedFailures, WhoWritesToTheModulesParametersIsTold) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kOptimizer}) {
    on_ranks({}, [&](Communicator& ranks) {
      const Net net = two_forwards();
      Sharded sharded{*net.module, ranks, sharding, {}};
      Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
      State state;
      add_to(state, sharded, *net.module);
      net.loss(ranks.rank()).backward();
      optimizer.step();
      sharded.check();
      state.call_before_save();
      {
        const torch::NoGradGuard no_grad;
        torch::nn::init::zeros_(std::static_pointer_cast<Layers>(net.module)->layers[2]->named_parameters()["weight"]);
      }
      const std::string message = message_of<FailedPrecondition>([&] { sharded.check(); });
      EXPECT_SAYS(message, "\"layers.2.weight\" was written to");
      EXPECT_SAYS(message, "Sharded::slices()");
      EXPECT_EQ(message_of<FailedPrecondition>([&] { net.loss(ranks.rank()).backward(); }), message);
      // The written values must not get into a checkpoint either.
      EXPECT_EQ(message_of<FailedPrecondition>([&] { state.call_before_save(); }), message);
    });
  }
}

TEST(ShardedFailures, AnOptimizerStepsNoLongerThanThereAreParameters) {
  on_ranks({}, [&](Communicator& ranks) {
    const Net net = two_forwards();
    std::optional<Sharded> sharded;
    sharded.emplace(*net.module, ranks, Sharding::kParameters, ShardOptions{});
    Optimizer optimizer{sharded->groups(0), Sgd{.lr = 0.1}};
    net.loss(ranks.rank()).backward();
    sharded.reset();
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { optimizer.step(); }),
                "after the Sharded that owns its parameters was destroyed");
  });
}

/// Activations from before a step do not fit parameters from after it.
TEST(ShardedFailures, AGraphOfBeforeTheStepIsOfNoUse) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients}) {
    on_ranks({}, [&](Communicator& ranks) {
      const Net net = two_forwards();
      Sharded sharded{*net.module, ranks, sharding, {}};
      Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
      const Tensor one = net.loss(ranks.rank());
      const Tensor other = net.loss(ranks.rank() + 2);
      const Tensor third = net.loss(ranks.rank() + 4);
      one.backward();
      other.backward();  // no parameter has changed since the forward
      optimizer.step();
      EXPECT_SAYS(message_of<c10::Error>([&] { third.backward(); }), "modified by an inplace operation");
    });
  }
}

/// An evaluation without gradients runs no hook that could throw: its results are NaN, and every later call throws.
TEST(ShardedFailures, OfEvaluationsAreThrownByTheStep) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    std::latch trained{1};
    on_ranks({}, [&](Communicator& ranks) {
      const Net net = tied();
      const Net kept = tied();
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
      // The slices keep their values, because they may be the only copy of this part.
      for (const auto& each : sharded.slices()) {
        const Tensor whole = kept.module->named_parameters()[each.name].detach().flatten();
        EXPECT_TRUE(torch::equal(each.values.detach(), whole.narrow(0, each.begin, each.values.numel()))) << each.name;
      }
    });
  }
}

/// If other code than an Optimizer of groups() changes parameters that are gathered already, only a part of them would
/// be new. Here it is the unit that is used first and stays gathered.
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
          if (is_refreshed) sharded.refresh();
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
          EXPECT_SAYS(message, "\" was changed on this rank after it had been gathered");
          EXPECT_SAYS(message, "refresh()");
        });
      }
    }
  }
}

}  // namespace
}  // namespace pharos::ml
