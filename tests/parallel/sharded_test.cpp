#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/recompute.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "nets.hpp"
#include "ways.hpp"

namespace pharos::ml {
namespace {

struct Case {
  const char* name;
  std::function<Net()> make;
};
std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << of.name;
}

const Case kCases[] = {{"TransformerEncoder", encoder},
                       {"Lstm", recurrent},
                       {"Convolution", convolution},
                       {"Embedding", words},
                       {"SparseEmbedding", sparse_words},
                       {"Tied", tied},
                       {"Adapter", adapter},
                       {"AdaptedBlocks", adapted_blocks},
                       {"Twice", twice},
                       {"Unused", unused},
                       {"TwoForwards", two_forwards},
                       {"AtOnce", at_once},
                       {"Recomputed", recomputed},
                       {"Alone", alone}};

// ---- Compared with one process

/// The values or the gradient of each parameter, by name, flattened in the order of its memory.
using Named = std::map<std::string, Tensor>;

Named values_of(const torch::nn::Module& module) {
  Named all;
  for (const auto& each : module.named_parameters()) all[each.key()] = each.value().detach().flatten();
  return all;
}
Named gradients_of(const torch::nn::Module& module) {
  Named all;
  for (const auto& each : module.named_parameters()) {
    Tensor gradient = each.value().grad();
    if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
    all[each.key()] = gradient.defined() ? gradient.flatten() : gradient;
  }
  return all;
}

/// Expects that a part of a tensor differs by at most `relative` of the whole tensor's largest element, so by nothing
/// from zeros.
void expect_part(const Tensor& own, const Tensor& whole, std::int64_t begin, double relative, const std::string& what) {
  ASSERT_EQ(own.defined(), whole.defined()) << what;
  if (!own.defined()) return;
  const double difference = (own - whole.narrow(0, begin, own.numel())).abs().max().item<double>();
  EXPECT_LE(difference, relative * whole.abs().max().item<double>()) << what << " from " << begin;
}

void expect_values(const Sharded& sharded, const Named& all, double relative) {
  for (const auto& each : sharded.slices()) {
    expect_part(each.values.detach(), all.at(each.name), each.begin, relative, each.name);
  }
}
void expect_gradients(const Sharded& sharded, const Named& all, double relative) {
  for (const auto& each : sharded.slices()) {
    expect_part(each.values.grad(), all.at(each.name), each.begin, relative, "gradient of " + each.name);
  }
}

/// One process that trains on the batches of all ranks.
class Reference {
 public:
  Reference(Net net, std::uint32_t ranks, const Rule& rule = AdamW{.lr = 1e-2})
      : net_{std::move(net)}, ranks_{ranks}, optimizer_{groups_of(*net_.module, 0.1), rule} {}

  void backward(std::uint64_t step) {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) (net_.loss(step * ranks_ + rank) / ranks_).backward();
  }
  void step() {
    optimizer_.step();
    optimizer_.zero_grad();
  }
  double clip(double max) { return clip_norm(net_.module->parameters(), max); }
  double loss(std::uint64_t batch) const { return net_.loss(batch).item<double>(); }
  Named gradients() const { return gradients_of(*net_.module); }
  Named values() const { return values_of(*net_.module); }

 private:
  Net net_;
  const std::uint32_t ranks_;
  Optimizer optimizer_;
};

class ShardedTest : public testing::TestWithParam<std::tuple<Case, Way>> {
 protected:
  static const Case& of() { return std::get<Case>(GetParam()); }
  static const Way& way() { return std::get<Way>(GetParam()); }
  static ShardOptions options() { return {.reshard_after_forward = way().reshard}; }
};
INSTANTIATE_TEST_SUITE_P(
    Of, ShardedTest,
    testing::Combine(testing::ValuesIn(kCases),
                     testing::Values(Way{}, Way{.ranks = 1}, Way{.ranks = 3}, Way{.reshard = false},
                                     Way{.sharding = Sharding::kOptimizer}, Way{.sharding = Sharding::kGradients},
                                     Way{.sharding = Sharding::kGradients, .ranks = 3},
                                     Way{.ranks = 2, .reach = Reach::kTcp}, Way{.reshard = false, .reach = Reach::kTcp},
                                     Way{.sharding = Sharding::kOptimizer, .reach = Reach::kTcp},
                                     Way{.sharding = Sharding::kGradients, .reach = Reach::kTcp},
                                     Way{.ranks = 4, .reach = Reach::kMachines})),
    [](const auto& test) {
      std::ostringstream name;
      name << std::get<Case>(test.param) << std::get<Way>(test.param);
      return name.str();
    });

TEST_P(ShardedTest, GradientsAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options()};
    Reference reference{of().make(), ranks.size()};
    net.loss(ranks.rank()).backward();
    reference.backward(0);
    expect_gradients(sharded, reference.gradients(), 1e-12);
  });
}

TEST_P(ShardedTest, TwentyStepsAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options()};
    Optimizer optimizer{sharded.groups(0.1), AdamW{.lr = 1e-2}};
    Reference reference{of().make(), ranks.size()};
    for (std::uint64_t step = 0; step < 20; ++step) {
      net.loss(step * ranks.size() + ranks.rank()).backward();
      reference.backward(step);
      EXPECT_NEAR(sharded.clip_norm(0.05), reference.clip(0.05), 1e-9);
      optimizer.step();
      optimizer.zero_grad();
      reference.step();
      if (step % 2 == 0) continue;
      const torch::NoGradGuard evaluating;
      EXPECT_NEAR(net.loss(step).item<double>(), reference.loss(step), 1e-9);
    }
    expect_values(sharded, reference.values(), 1e-9);
  });
}

/// A loss is that of the newest parameters, wherever in a step it is computed, with and without gradients. The rule is
/// SGD, because AdamW would turn rounding noise in a zero gradient into a step of the parameter.
TEST_P(ShardedTest, LossesBetweenBackwardAndStepAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Sgd rule{.lr = 0.1, .momentum = 0.9};
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options()};
    Optimizer optimizer{sharded.groups(0.1), rule};
    Reference reference{of().make(), ranks.size(), rule};
    const auto compare = [&](std::uint64_t batch, bool with_gradients, const char* when) {
      const torch::AutoGradMode mode{with_gradients};
      const double loss = reference.loss(batch);
      EXPECT_NEAR(net.loss(batch).item<double>(), loss, 1e-12 * std::abs(loss)) << when << ' ' << batch;
    };
    for (std::uint64_t step = 0; step < 5; ++step) {
      compare(step, step % 2 == 0, "before backward");
      net.loss(step * ranks.size() + ranks.rank()).backward();
      reference.backward(step);
      compare(step, step % 2 == 1, "before the step");
      optimizer.step();
      optimizer.zero_grad();
      reference.step();
      compare(step, false, "after the step");
    }
    expect_values(sharded, reference.values(), 1e-12);
  });
}

/// Gradients of several backwards are added up, with no_sync() before they travel, and otherwise after that.
TEST_P(ShardedTest, GradientsAddUp) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options()};
    Optimizer optimizer{sharded.groups(0.1), AdamW{.lr = 1e-2}};
    Reference reference{of().make(), ranks.size()};
    const std::uint64_t steps = ranks.size() <= 2 && way().reach == Reach::kMemory ? 20 : 3;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (std::uint64_t part = 0; part < 3; ++part) {
        const std::uint64_t batch = 3 * step + part;
        const auto backward = [&] { net.loss(batch * ranks.size() + ranks.rank()).backward(); };
        if (part == 1) {
          const auto alone = sharded.no_sync();
          backward();
        } else {
          backward();
        }
        reference.backward(batch);
      }
      // Later the parameters themselves differ by as much as the tolerance.
      if (step < 3) expect_gradients(sharded, reference.gradients(), 1e-12);
      optimizer.step();
      optimizer.zero_grad();
      reference.step();
    }
    expect_values(sharded, reference.values(), 1e-9);
  });
}

/// Pairs of layers. A loss may use some of them.
struct Pairs : torch::nn::Module {
  Pairs() {
    for (int i = 0; i < 4; ++i) {
      pairs->push_back(torch::nn::Sequential(torch::nn::Linear(6, 6), torch::nn::Linear(6, 6)));
    }
  }
  /// Goes through the first layer of each pair in `used`, and through both layers of the pair `both`.
  Tensor loss(std::uint64_t batch, const std::vector<std::size_t>& used, std::size_t both) {
    Tensor x = numbers(batch, {4, 6});
    for (const std::size_t each : used) {
      const auto* const pair = pairs[each]->as<torch::nn::Sequential>();
      x = torch::tanh(pair->ptr(0)->as<torch::nn::Linear>()->forward(x));
      if (each == both) x = pair->ptr(1)->as<torch::nn::Linear>()->forward(x);
    }
    return x.pow(2).mean();
  }
  torch::nn::ModuleList pairs = register_module("pairs", torch::nn::ModuleList());
};

const Way kOneOfEach[] = {Way{},
                          Way{.reshard = false},
                          Way{.sharding = Sharding::kOptimizer},
                          Way{.sharding = Sharding::kGradients, .ranks = 3},
                          Way{.sharding = Sharding::kOptimizer, .reach = Reach::kTcp},
                          Way{.sharding = Sharding::kGradients, .reach = Reach::kTcp}};

void for_one_of_each(const std::function<void(const Way& way, Communicator& ranks)>& body) {
  for (const Way& way : kOneOfEach) {
    std::ostringstream name;
    name << way;
    SCOPED_TRACE(name.str());
    on_ranks(way, [&](Communicator& ranks) { body(way, ranks); });
  }
}

/// Steps both optimizers and clears their gradients.
void step_both(Optimizer& one, Optimizer& other) {
  for (Optimizer* const each : {&one, &other}) {
    each->step();
    each->zero_grad();
  }
}

/// Calls of an actor run on different threads: a sharded module may be made, called, trained and destroyed on any
/// thread.
TEST(ShardedThreads, MayBeOthersFromCallToCall) {
  const auto elsewhere = [](const auto& work) { return std::async(std::launch::async, work).get(); };
  for_one_of_each([&](const Way& way, Communicator& ranks) {
    const Net net = encoder();
    auto sharded = elsewhere([&] {
      const ShardOptions options{.reshard_after_forward = way.reshard};
      return std::make_unique<Sharded>(*net.module, ranks, way.sharding, options);
    });
    Optimizer optimizer{sharded->groups(0.1), AdamW{.lr = 1e-2}};
    Reference reference{encoder(), ranks.size()};
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Tensor loss = elsewhere([&] { return net.loss(step * ranks.size() + ranks.rank()); });
      elsewhere([&] { loss.backward(); });
      elsewhere([&] { optimizer.step(); });
      optimizer.zero_grad();
      reference.backward(step);
      reference.step();
      const torch::NoGradGuard no_grad;
      EXPECT_NEAR(net.loss(step).item<double>(), reference.loss(step), 1e-9);
    }
    expect_values(*sharded, reference.values(), 1e-9);
    elsewhere([&] { sharded.reset(); });
  });
}

/// Gradients that were held back by no_sync(), of a unit that the last backward does not use, and of a parameter that
/// it does not use in a unit that it uses.
TEST(ShardedGradients, ThatWereHeldBackCountWhateverTheLastBackwardUses) {
  for_one_of_each([](const Way& way, Communicator& ranks) {
    const auto module = filled(std::make_shared<Pairs>());
    const auto whole = filled(std::make_shared<Pairs>());
    Sharded sharded{*module, ranks, way.sharding, {.reshard_after_forward = way.reshard}};
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
    Optimizer reference{groups_of(*whole, 0), Sgd{.lr = 0.1}};
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto backward = [&](Pairs& of, std::uint64_t rank, double share, bool last) {
        const std::uint64_t batch = 2 * (step * ranks.size() + rank);
        const std::vector<std::size_t> first_use = {0, 1, 2};
        const std::vector<std::size_t> last_use = {0, 3};
        ((last ? of.loss(batch + 1, last_use, 3) : of.loss(batch, first_use, 0)) * share).backward();
      };
      {
        const auto alone = sharded.no_sync();
        backward(*module, ranks.rank(), 1, false);
      }
      backward(*module, ranks.rank(), 1, true);
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        for (const bool last : {false, true}) backward(*whole, rank, 1.0 / ranks.size(), last);
      }
      expect_gradients(sharded, gradients_of(*whole), 1e-12);
      step_both(optimizer, reference);
    }
    expect_values(sharded, values_of(*whole), 1e-12);
  });
}

/// With ZeRO, ranks may use different units in different orders, and some units not at all.
TEST(ShardedGradients, OfZerosRanksMayComeFromDifferentGraphs) {
  for_one_of_each([](const Way& way, Communicator& ranks) {
    if (way.sharding == Sharding::kParameters) return;
    const auto module = filled(std::make_shared<Pairs>());
    const auto whole = filled(std::make_shared<Pairs>());
    Sharded sharded{*module, ranks, way.sharding, {}};
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
    Optimizer reference{groups_of(*whole, 0), Sgd{.lr = 0.1}};
    const std::vector<std::vector<std::size_t>> uses = {{0, 1, 3}, {3, 1}, {1, 0}};
    for (std::uint64_t step = 0; step < 4; ++step) {
      const auto loss = [&](Pairs& of, std::uint64_t rank) {
        const std::vector<std::size_t>& use = uses[(step + rank) % uses.size()];
        return of.loss(step * ranks.size() + rank, use, use.front());
      };
      loss(*module, ranks.rank()).backward();
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) (loss(*whole, rank) / ranks.size()).backward();
      expect_gradients(sharded, gradients_of(*whole), 1e-12);
      step_both(optimizer, reference);
    }
    expect_values(sharded, values_of(*whole), 1e-12);
  });
}

/// Gradients that were on their way when a backward threw do not count in the next one.
TEST(ShardedGradients, OfABackwardThatThrewDoNotCount) {
  for_one_of_each([](const Way& way, Communicator& ranks) {
    const auto module = filled(std::make_shared<Layers>());
    const auto whole = filled(std::make_shared<Layers>());
    Sharded sharded{*module, ranks, way.sharding, {.reshard_after_forward = way.reshard}};
    Optimizer optimizer{sharded.groups(0), Sgd{.lr = 0.1}};
    const auto loss = [&](Layers& of, std::uint64_t batch, bool throws) {
      Tensor x = numbers(batch, {4, 6});
      for (const std::size_t each : {0, 1, 2, 3, 4}) {
        x = of.layer(each, x);
        if (each == 0 && throws) {
          x.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error{"it has had enough"}; });
        }
      }
      return x.pow(2).mean();
    };
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_THROW(loss(*module, 10 + step, true).backward(), std::runtime_error);
      optimizer.zero_grad();
      loss(*module, ranks.rank(), false).backward();
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) (loss(*whole, rank, false) / ranks.size()).backward();
      expect_gradients(sharded, gradients_of(*whole), 1e-12);
      optimizer.zero_grad();
      whole->zero_grad();
    }
  });
}

/// The slices of all ranks together cover all parameters.
TEST(ShardedSlices, AreTheWholeModule) {
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    on_ranks({.ranks = count}, [&](Communicator& ranks) {
      const Net net = encoder();
      std::int64_t elements = 0;
      for (const auto& each : net.module->parameters()) elements += each.numel();
      const Sharded sharded = fully_shard(*net.module, ranks);
      std::int64_t own = 0;
      for (const auto& each : sharded.slices()) own += each.values.numel();
      EXPECT_GT(own, 0);
      ranks.all_reduce(std::span{&own, 1});
      EXPECT_EQ(own, elements);
    });
  }
}

// ---- Types other than the type in which parameters are kept

/// A module that computes in bfloat16 sums its gradients up in float: the gradients of two ranks are, to the bit, the
/// mean of the gradients of each rank alone.
TEST(ShardedNumbers, AreHalvesThatFloatsAreKeptOf) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto make = [] {
      const Net net = encoder();
      net.module->to(torch::kFloat);
      return std::static_pointer_cast<Encoder>(net.module);
    };
    const auto input = [](std::uint64_t batch) { return numbers(batch, {5, 3, 8}).to(torch::kBFloat16); };
    const auto model = make();
    Sharded sharded = fully_shard(*model, ranks, {.param = DType::kBF16, .reduce = DType::kF32});
    model->forward(input(ranks.rank())).backward();
    Named mean;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const auto alone = make();
      alone->to(torch::kBFloat16);
      alone->forward(input(rank)).backward();
      for (const auto& [name, gradient] : gradients_of(*alone)) {
        const Tensor part = gradient.to(torch::kFloat) / ranks.size();
        mean[name] = mean[name].defined() ? mean[name] + part : part;
      }
    }
    for (const auto& each : sharded.slices()) {
      EXPECT_EQ(each.values.scalar_type(), torch::kFloat);
      const Tensor own = mean.at(each.name).narrow(0, each.begin, each.values.numel());
      EXPECT_TRUE(torch::equal(each.values.grad(), own)) << each.name;
    }
  });
}

TEST(ShardedNumbers, FollowFloatsForAWhile) {
  on_ranks({.ranks = 2}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Layers>());
    module->to(torch::kFloat);
    const auto loss = [&](std::uint64_t batch, torch::Dtype type) {
      Tensor x = numbers(batch, {16, 6}).to(type);
      for (const std::size_t each : {0, 1, 2, 3, 4}) x = module->layer(each, x);
      return (x.to(torch::kFloat) - 0.5).pow(2).mean();
    };
    ml::Sharded sharded = ml::fully_shard(*module, ranks, {.param = ml::DType::kBF16, .reduce = ml::DType::kF32});
    ml::Optimizer optimizer{sharded.groups(0.1), ml::AdamW{.lr = 1e-2}};
    double first = 0;
    double last = 0;
    for (std::uint64_t step = 0; step < 60; ++step) {
      const Tensor now = loss(step * 2 + ranks.rank(), torch::kBFloat16);
      (step == 0 ? first : last) = now.item<double>();
      now.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    EXPECT_LT(last, 0.2 * first);
  });
}

/// Trained parameters are kept in float, and frozen parameters in their own type.
TEST(ShardedNumbers, OfFrozenHalvesStayHalves) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto make = [] {
      auto module = filled(std::make_shared<AdaptedBlocks>());
      module->to(torch::kBFloat16);
      return module;
    };
    const auto input = [](std::uint64_t batch) { return numbers(batch, {4, 7}).to(torch::kBFloat16); };
    const auto module = make();
    const Sharded sharded = fully_shard(*module, ranks);
    for (const auto& each : sharded.slices()) {
      const bool is_frozen = each.name.find("base") != std::string::npos;
      EXPECT_EQ(each.values.scalar_type(), is_frozen ? torch::kBFloat16 : torch::kFloat) << each.name;
    }
    for (std::uint64_t batch = 0; batch < 2; ++batch) {
      const Tensor loss = module->forward(input(batch));
      EXPECT_TRUE(torch::equal(loss, make()->forward(input(batch))));
      loss.backward();
    }
  });
}

/// Gradients that are added up on this rank under no_sync() are summed in float.
TEST(ShardedNumbers, AddUpInTheTypeThatTravels) {
  on_ranks({.ranks = 1}, [&](Communicator& ranks) {
    const auto module = std::make_shared<torch::nn::LinearImpl>(1, 1);
    Sharded sharded = fully_shard(*module, ranks, {.param = DType::kBF16, .reduce = DType::kF32});
    const Tensor x = torch::ones({1, 1}, torch::kBFloat16);
    {
      const auto alone = sharded.no_sync();
      (module->forward(x) * 256).sum().backward();
      (module->forward(x) * 1).sum().backward();  // 257 is not representable in bfloat16
    }
    (module->forward(x) * 1).sum().backward();
    for (const Tensor& each : sharded.parameters()) EXPECT_EQ(each.grad().item<float>(), 258);
  });
}

/// If one rank has an infinite gradient, all ranks leave the step out.
TEST(ShardedNumbers, AreScaledDownByTheSameOnAllRanks) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Layers>());
    Sharded sharded = fully_shard(*module, ranks);
    GradScaler scaler{{.begin = 8}};
    const std::vector<Tensor> own = sharded.parameters();
    for (const Tensor& each : own) each.mutable_grad() = torch::ones_like(each);
    EXPECT_TRUE(scaler.unscale(own, ranks));
    EXPECT_EQ(own[0].grad()[0].item<double>(), 1.0 / 8);
    if (ranks.rank() == 1) own[0].grad()[0] = INFINITY;
    EXPECT_FALSE(scaler.unscale(own, ranks));
    EXPECT_EQ(scaler.now(), 4);
  });
}

// ---- Recomputation

/// Random numbers that a part draws are the same when it is recomputed, also in nested parts, and the numbers that are
/// drawn afterwards are as without recomputation.
TEST(Recomputation, DrawsWhatThePlainRunDraws) {
  struct Run {
    Named gradients;
    std::vector<Tensor> others;
  };
  const auto run = [](int depth) {
    const auto module = filled(std::make_shared<Layers>());
    torch::manual_seed(5);
    const auto part = [module](std::size_t number) {
      return [=](const Tensor& x) { return torch::dropout(module->layer(number, x), 0.5, true); };
    };
    const auto pair = [&](std::size_t number) {
      return
          [=](const Tensor& x) { return part(number + 1)(depth > 1 ? checkpoint(part(number), x) : part(number)(x)); };
    };
    const Tensor x = numbers(1, {4, 6}).requires_grad_();
    Tensor y = x;
    for (const std::size_t each : {0, 2}) y = depth > 0 ? checkpoint(pair(each), y) : pair(each)(y);
    const Tensor after_forward = torch::rand({4});
    y.pow(2).mean().backward();
    return Run{gradients_of(*module), {y.detach(), x.grad(), after_forward, torch::rand({4})}};
  };
  const Run plain = run(0);
  for (const int depth : {1, 2}) {
    const Run again = run(depth);
    for (std::size_t i = 0; i < plain.others.size(); ++i) EXPECT_TRUE(torch::equal(again.others[i], plain.others[i]));
    for (const auto& [name, gradient] : plain.gradients) {
      ASSERT_EQ(again.gradients.at(name).defined(), gradient.defined()) << name;
      if (!gradient.defined()) continue;
      EXPECT_TRUE(torch::equal(again.gradients.at(name), gradient)) << name;
    }
  }
}

// ---- Shares

/// The result is as if all samples were one batch, however many samples each rank has.
TEST(ShardedShares, CountByTheirSamples) {
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    on_ranks({.ranks = 3}, [&](Communicator& ranks) {
      const auto module = filled(std::make_shared<Layers>());
      const auto whole = filled(std::make_shared<Layers>());
      const auto loss = [](Layers& of, const Tensor& x) {
        Tensor y = x;
        for (const std::size_t each : {0, 1, 2, 3, 4}) y = of.layer(each, y);
        return y.pow(2).mean();
      };
      const Tensor batch = numbers(7, {6, 6});
      const std::int64_t begins[] = {0, 1, 6};
      const std::int64_t counts[] = {1, 5, 0};
      const std::int64_t count = counts[ranks.rank()];
      Sharded sharded{*module, ranks, sharding, {}};
      sharded.weigh(static_cast<double>(count));
      loss(*module, count == 0 ? batch : batch.narrow(0, begins[ranks.rank()], count)).backward();
      loss(*whole, batch).backward();
      expect_gradients(sharded, gradients_of(*whole), 1e-12);
    });
  }
}

}  // namespace
}  // namespace pharos::ml
