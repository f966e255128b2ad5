// Which units are gathered and freed, when, and how many bytes go between ranks.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/ddp.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>

#include "nets.hpp"
#include "says.hpp"
#include "ways.hpp"

namespace pharos::ml {
namespace {

// ---- Units

TEST(ShardedUnits, AreTheChildrenOfTheLargestList) {
  on_ranks({}, [&](Communicator& ranks) {
    const Net net = tied();
    const Sharded sharded = fully_shard(*net.module, ranks);
    if (ranks.rank() != 0) return;
    const std::string table = sharded.table();
    for (const char* const each : {"blocks.0", "blocks.1", "blocks.2", "blocks.3", "all others"}) {
      EXPECT_NE(table.find(each), std::string::npos) << table;
    }
    EXPECT_EQ(table.find("words"), std::string::npos) << table;
  });
}

TEST(ShardedUnits, AreTheLayersOfAnEncoderInASequence) {
  on_ranks({}, [&](Communicator& ranks) {
    const torch::nn::TransformerEncoder encoder{torch::nn::TransformerEncoderLayer{16, 2}, 6};
    torch::nn::Sequential module{torch::nn::Embedding{8, 16}, encoder, torch::nn::Linear{16, 8}};
    const std::string table = fully_shard(*module, ranks).table();
    for (const char* const each : {"\n1.layers.0 ", "\n1.layers.5 ", "\nall others "}) EXPECT_SAYS(table, each);
    // If no single list has most of the parameters, the whole module is one unit.
    const auto half = [] { return torch::nn::ModuleList{torch::nn::Linear{64, 64}, torch::nn::Linear{64, 64}}; };
    torch::nn::ModuleList halves{half(), half()};
    EXPECT_SAYS(fully_shard(*halves, ranks).table(), "\n1             8320");
  });
}

TEST(ShardedUnits, AreListedWithWhatTheyTake) {
  const auto table = [](Communicator& ranks, const ShardOptions& options = {}) {
    torch::nn::Sequential module{torch::nn::Linear(1024, 512), torch::nn::Linear(512, 1024)};
    return fully_shard(*module, ranks, options).table();
  };
  const std::string whole =
      "unit    parameters     whole MiB  kept MiB\n"
      "0           524800          2.00      1.00\n"
      "1           525312          2.00      1.00\n";
  on_ranks({}, [&](Communicator& ranks) {
    EXPECT_EQ(table(ranks), whole + "All ranks read the same memory; each rank keeps 2.00 MiB of it.\n");
    // In bfloat16, each rank has its own copy of the gathered values.
    EXPECT_EQ(table(ranks, {.param = DType::kBF16}),
              "unit    parameters     whole MiB  kept MiB\n"
              "0           524800          1.00      1.00\n"
              "1           525312          1.00      1.00\n"
              "Gathered parameters take at most 2.00 MiB, kept parts 2.00 MiB.\n");
  });
  on_ranks({.reach = Reach::kTcp}, [&](Communicator& ranks) {
    EXPECT_EQ(table(ranks), whole + "Gathered parameters take at most 4.01 MiB, kept parts 2.00 MiB.\n");
  });
}

/// Ranks that share memory keep the parameters in the type in which the module computes, once for all ranks: each
/// rank's slices lie in the memory that all ranks read.
TEST(ShardedUnits, AreThereOnceForRanksThatShareMemory) {
  on_ranks({.ranks = 3}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Layers>());
    Sharded sharded = fully_shard(*module, ranks);
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.5}};
    for (int step = 0; step < 3; ++step) {
      Tensor x = numbers(ranks.rank(), {4, 6});
      for (std::size_t each = 0; each < 5; ++each) x = module->layer(each, x);
      x.pow(2).mean().backward();
      optimizer.step();
      EXPECT_EQ(sharded.last_step().gathers, 0U);
    }
    const auto parameters = module->named_parameters();
    for (const Sharded::Slice& each : sharded.slices()) {
      const Tensor whole = parameters[each.name];
      const auto* const there = static_cast<const double*>(whole.const_data_ptr()) + each.begin;
      EXPECT_EQ(each.values.const_data_ptr(), there) << each.name;
    }
  });
}

std::ptrdiff_t barriers(const Communicator& ranks) {
  std::istringstream lines{ranks.recent_operations()};
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(" barrier") != std::string::npos ? 1 : 0;
  return count;
}

/// A rank that evaluates while others step would read old and new values. So the step waits in a barrier after an
/// evaluation, and needs none without one.
TEST(ShardedUnits, AreNotChangedWhileAnyRankReadsThem) {
  on_ranks({}, [&](Communicator& ranks) {
    const Net net = tied();
    const Net alone = tied();
    Sharded sharded{*net.module, ranks, Sharding::kParameters, {}};
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.5}};
    Optimizer reference{groups_of(*alone.module, 0), Sgd{.lr = 0.5}};
    for (std::uint64_t step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      reference.zero_grad();
      net.loss(step).backward();
      alone.loss(step).backward();
      const bool evaluates = step % 2 == 1;
      if (evaluates) {
        const torch::NoGradGuard no_grad;
        EXPECT_NEAR(net.loss(8).item<double>(), alone.loss(8).item<double>(), 1e-12);
      }
      const std::ptrdiff_t before = barriers(ranks);
      optimizer.step();
      EXPECT_EQ(barriers(ranks) - before, evaluates ? 1 : 0);
      reference.step();
    }
  });
}

TEST(ShardedUnits, AreWhatIsAskedFor) {
  on_ranks({.reach = Reach::kTcp}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Encoder>());
    const auto layers = module->encoder->layers->children();
    const Sharded sharded = fully_shard(*module, ranks, {.blocks = {layers[0], layers[2]}});
    const std::string table = sharded.table();
    EXPECT_NE(table.find("encoder.layers.0"), std::string::npos) << table;
    EXPECT_EQ(table.find("encoder.layers.1"), std::string::npos) << table;
    EXPECT_NE(table.find("encoder.layers.2"), std::string::npos) << table;
    module->forward(numbers(ranks.rank(), {5, 3, 8})).backward();
    // Units are gathered once in forward and once in backward, those that stay only once. The last unit of forward is
    // still there in backward.
    EXPECT_GE(sharded.last_step().gathers, 3U);
    EXPECT_LE(sharded.last_step().gathers, 5U);
    EXPECT_EQ(sharded.last_step().reductions, 3U);
  });
}

/// At most three layers are gathered at a time, however many there are.
TEST(ShardedUnits, ComeAndGo) {
  on_ranks({.reach = Reach::kTcp}, [&](Communicator& ranks) {
    const auto module = std::make_shared<Layers>();
    Sharded sharded = fully_shard(*module, ranks);
    const auto here = [&] {
      int count = 0;
      for (const auto& each : module->parameters()) count += each.storage().nbytes() > 0 ? 1 : 0;
      return count;
    };
    EXPECT_EQ(here(), 0);
    Tensor x = torch::ones({2, 6});
    for (const std::size_t each : {0, 1, 2, 3, 4}) {
      x = module->layer(each, x);
      EXPECT_LE(here(), 3 * 2);
    }
    x.sum().backward();
    EXPECT_EQ(here(), 0);
    for (const auto& each : module->parameters()) EXPECT_FALSE(each.grad().defined());
  });
}

// ---- What goes between ranks

/// Blocks of which each is larger than the one before it. The forward uses them in another order.
struct Unequal : torch::nn::Module {
  static constexpr std::size_t kOrder[] = {2, 0, 4, 1, 3};
  Unequal() {
    for (std::int64_t i = 0; i < 5; ++i) {
      blocks->push_back(torch::nn::Sequential(torch::nn::Linear(8, 8 * (i + 1)), torch::nn::Linear(8 * (i + 1), 8)));
    }
  }
  Tensor block(std::size_t number, const Tensor& x) {
    return x + blocks[number]->as<torch::nn::Sequential>()->forward(x);
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
};

/// The operations since the last call of next(): which blocks were gathered (g) and reduced (r), in the order of their
/// beginning.
class Traffic {
 public:
  Traffic(Communicator ranks, const Unequal& module) : ranks_{std::move(ranks)} {
    for (const auto& block : module.blocks->children()) {
      std::size_t elements = 0;
      for (const Tensor& each : block->parameters()) elements += static_cast<std::size_t>(each.numel());
      elements_.push_back(elements);
    }
  }

  /// Returns the operations that began since the last call.
  std::string next() {
    std::string text;
    std::istringstream lines{ranks_.recent_operations()};
    for (std::string line; std::getline(lines, line);) {
      std::size_t number = 0;
      std::size_t count = 0;
      if (std::sscanf(line.c_str(), "%zu", &number) != 1 || number <= seen_) continue;
      seen_ = number;
      if (std::sscanf(line.c_str(), "%*u all_gather(%zu u8", &count) == 1) {
        if (const std::size_t elements = count / sizeof(double) * ranks_.size(); elements >= elements_.front()) {
          text += " g" + block_of(elements);
        }
      } else if (std::sscanf(line.c_str(), "%*u reduce_scatter(mean of %zu", &count) == 1) {
        text += " r" + block_of(count);
      }
    }
    return text;
  }

 private:
  /// Returns the largest block that fits in so many elements, because a unit has padding at its end.
  std::string block_of(std::size_t elements) const {
    const auto above = std::upper_bound(elements_.begin(), elements_.end(), elements);
    return std::to_string(above - elements_.begin() - 1);
  }

  Communicator ranks_;
  std::vector<std::size_t> elements_;  // by block
  std::size_t seen_ = 0;
};

/// The next block is gathered while one computes, in forward and in backward. The gradients of a block do not wait for
/// blocks that come later in backward, wherever those are in the module.
TEST(ShardedTraffic, GoesBesideTheWork) {
  on_ranks({.reach = Reach::kTcp}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Unequal>());
    Traffic traffic{ranks, *module};
    Sharded sharded = fully_shard(*module, ranks);
    const auto forward = [&](const std::function<void()>& after_each) {
      Tensor x = numbers(ranks.rank(), {4, 8});
      for (const std::size_t each : Unequal::kOrder) {
        x = module->block(each, x);
        after_each();
      }
      return x.pow(2).mean();
    };
    forward([] {}).backward();
    traffic.next();
    std::string seen;
    const Tensor loss = forward([&] { seen += traffic.next() + " |"; });
    EXPECT_EQ(seen, " g2 g0 | g4 | g1 | g3 | |");
    // The block that was used last is still gathered.
    loss.backward();
    EXPECT_EQ(traffic.next(), " r3 r1 g0 r4 g2 r0 r2");
  });
}

/// A unit that stays and is used first and last, like a tied embedding and head, lets the first block be gathered only
/// once.
TEST(ShardedTraffic, IsNothingThatNobodyNeeds) {
  on_ranks({.reach = Reach::kTcp}, [&](Communicator& ranks) {
    const Net net = tied();
    const Sharded sharded = fully_shard(*net.module, ranks);
    for (std::uint64_t step = 0; step < 3; ++step) net.loss(step).backward();
    // Forward gathers all units. Backward gathers the one of the four blocks that is not there any more.
    EXPECT_EQ(sharded.last_step().gathers, 5U + 1U);
  });
}

/// Bytes that a rank sends over TCP in a step.
std::uint64_t sent_in_a_step(Communicator& ranks, const std::function<void()>& step) {
  constexpr int kSteps = 3;
  for (int i = 0; i < 2; ++i) step();  // two steps in which the order of the gradients is learned
  const std::uint64_t before = ranks.bytes_sent();
  for (int i = 0; i < kSteps; ++i) step();
  return (ranks.bytes_sent() - before) / kSteps;
}

/// ZeRO sends as much as Ddp. With sharded parameters a rank gathers them twice a step.
TEST(ShardedTraffic, IsAsMuchAsDdps) {
  constexpr int kBlocks = 40;
  const auto make = [] {
    torch::nn::Sequential module;
    for (int i = 0; i < kBlocks; ++i) module->push_back(torch::nn::Linear(128, 128));
    return module;
  };
  const auto train = [](torch::nn::Sequential& module) { module->forward(torch::ones({2, 128})).sum().backward(); };
  run_streams(3, {.timeout = std::chrono::seconds{20}}, [&](Communicator& ranks) {
    auto module = make();
    double whole = 0;
    {
      Ddp ddp{ranks, *module};
      whole = static_cast<double>(sent_in_a_step(ranks, [&] { train(module); }));
    }
    const auto of = [&](Sharding sharding, const ShardOptions& options = {}) {
      auto own = make();
      Sharded sharded{*own, ranks, sharding, options};
      Optimizer optimizer{sharded.groups(0), Sgd{.lr = 1e-3}};
      return static_cast<double>(sent_in_a_step(ranks,
                                                [&] {
                                                  train(own);
                                                  optimizer.step();
                                                  optimizer.zero_grad();
                                                })) /
             whole;
    };
    EXPECT_NEAR(of(Sharding::kOptimizer), 1, 0.03);
    EXPECT_NEAR(of(Sharding::kGradients), 1, 0.03);
    EXPECT_NEAR(of(Sharding::kParameters, {.reshard_after_forward = false}), 1, 0.03);
    // Backward begins with blocks that are still gathered, and saves those gathers.
    EXPECT_NEAR(of(Sharding::kParameters), 1.5 - 0.5 * 3 / kBlocks, 0.03);
  });
}

}  // namespace
}  // namespace pharos::ml
