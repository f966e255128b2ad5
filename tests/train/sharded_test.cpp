#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/recompute.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

/// A module, and what is done with it in a step.
struct Net {
  std::shared_ptr<torch::nn::Module> module;
  /// The loss of batch `number`.
  std::function<Tensor(std::uint64_t number)> loss;
  std::vector<std::shared_ptr<torch::nn::Module>> blocks{};
};
struct Case {
  const char* name;
  std::function<Net()> make;
};
std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << of.name;
}

Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> sizes) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::kDouble);
}
Tensor tokens(std::uint64_t seed, std::vector<std::int64_t> sizes, std::int64_t vocabulary) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randint(0, vocabulary, sizes, random, torch::kLong);
}

/// The same values in each that is made.
template <class Module>
std::shared_ptr<Module> filled(std::shared_ptr<Module> module) {
  module->to(torch::kDouble);
  auto random = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::NoGradGuard no_grad;
  for (auto& each : module->parameters()) each.normal_(0, 0.3, random);
  return module;
}

// ---- Modules

struct Encoder : torch::nn::Module {
  Encoder()
      : encoder{register_module("encoder",
                                torch::nn::TransformerEncoder(
                                    torch::nn::TransformerEncoderLayer(
                                        torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(12).dropout(0)),
                                    3))} {}
  Tensor forward(const Tensor& x) { return encoder(x).pow(2).mean(); }
  torch::nn::TransformerEncoder encoder;
};
Net encoder() {
  auto module = filled(std::make_shared<Encoder>());
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {5, 3, 8})); }};
}

struct Recurrent : torch::nn::Module {
  Recurrent()
      : lstm{register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(4, 6).num_layers(2)))},
        out{register_module("out", torch::nn::Linear(6, 2))} {}
  Tensor forward(const Tensor& x) { return out(std::get<0>(lstm(x))).pow(2).mean(); }
  torch::nn::LSTM lstm;
  torch::nn::Linear out;
};
Net recurrent() {
  auto module = filled(std::make_shared<Recurrent>());
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {5, 3, 4})); }};
}

struct Convolution : torch::nn::Module {
  Convolution()
      : layers{register_module(
            "layers", torch::nn::Sequential(torch::nn::Conv1d(3, 5, 3), torch::nn::ReLU(), torch::nn::Conv1d(5, 4, 2),
                                            torch::nn::Tanh(), torch::nn::Conv1d(4, 2, 2)))},
        out{register_module("out", torch::nn::Linear(12, 3))} {}
  Tensor forward(const Tensor& x) { return out(layers->forward(x).flatten(1)).pow(2).mean(); }
  torch::nn::Sequential layers;
  torch::nn::Linear out;
};
Net convolution() {
  auto module = filled(std::make_shared<Convolution>());
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {2, 3, 10})); }};
}

struct Words : torch::nn::Module {
  Words()
      : words{register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(11, 6).padding_idx(0)))},
        norm{register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})))},
        out{register_module("out", torch::nn::Linear(6, 3))} {}
  Tensor forward(const Tensor& x) { return out(norm(words(x))).pow(2).mean(); }
  torch::nn::Embedding words;
  torch::nn::LayerNorm norm;
  torch::nn::Linear out;
};
Net words() {
  auto module = filled(std::make_shared<Words>());
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

Net sparse_words() {
  auto module = filled(std::make_shared<Words>());
  module->words->options.sparse(true);
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

/// Blocks, and an embedding whose weight is the head's, too.
struct Language : torch::nn::Module {
  Language()
      : words{register_module("words", torch::nn::Embedding(11, 6))},
        blocks{register_module("blocks", torch::nn::ModuleList())} {
    for (int i = 0; i < 4; ++i) {
      blocks->push_back(torch::nn::Sequential(torch::nn::Linear(6, 9), torch::nn::GELU(), torch::nn::Linear(9, 6)));
    }
    head = register_parameter("head", words->weight);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = words(x);
    for (const auto& block : *blocks) y = y + block->as<torch::nn::Sequential>()->forward(y);
    return torch::cross_entropy_loss(torch::linear(y, head).flatten(0, 1), x.flatten());
  }
  torch::nn::Embedding words;
  torch::nn::ModuleList blocks;
  Tensor head;
};
Net tied() {
  auto module = filled(std::make_shared<Language>());
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

/// What is trained is thin, and beside what is frozen.
struct Adapter : torch::nn::Module {
  Adapter() {
    for (int i = 0; i < 3; ++i) {
      const auto name = std::to_string(i);
      base.push_back(register_module("base" + name, torch::nn::Linear(7, 7)));
      down.push_back(register_module("down" + name, torch::nn::Linear(torch::nn::LinearOptions(7, 2).bias(false))));
      up.push_back(register_module("up" + name, torch::nn::Linear(torch::nn::LinearOptions(2, 7).bias(false))));
      for (auto& each : base.back()->parameters()) each.set_requires_grad(false);
    }
  }
  Tensor forward(Tensor x) {
    for (std::size_t i = 0; i < base.size(); ++i) x = torch::tanh(base[i](x) + up[i](down[i](x)));
    return x.pow(2).mean();
  }
  std::vector<torch::nn::Linear> base;
  std::vector<torch::nn::Linear> down;
  std::vector<torch::nn::Linear> up;
};
Net adapter() {
  auto module = filled(std::make_shared<Adapter>());
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {4, 7})); }};
}

struct Layers : torch::nn::Module {
  Layers() : layers{register_module("layers", torch::nn::ModuleList())} {
    for (int i = 0; i < 5; ++i) layers->push_back(torch::nn::Linear(6, 6));
  }
  Tensor layer(std::size_t number, const Tensor& x) {
    return torch::tanh(layers[number]->as<torch::nn::Linear>()->forward(x));
  }
  torch::nn::ModuleList layers;
};
Net twice() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {0, 1, 2, 0, 3, 4, 1}) x = module->layer(each, x);
            return x.pow(2).mean();
          }};
}
Net unused() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {4, 1}) x = module->layer(each, x);
            return x.pow(2).mean();
          }};
}
Net two_forwards() {
  auto module = filled(std::make_shared<Layers>());
  const auto through = [module](const Tensor& from) {
    Tensor x = from;
    for (const std::size_t each : {0, 1, 2, 3, 4}) x = module->layer(each, x);
    return x;
  };
  return {module, [through](std::uint64_t batch) {
            const Tensor one = through(numbers(batch, {4, 6}));
            const Tensor other = through(numbers(batch + 1000, {4, 6}));
            return (one * other).mean() + one.pow(2).mean();
          }};
}
/// Each layer again in backward, and pairs of them.
Net recomputed() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            const auto part = [&](std::size_t number) {
              return [number, module](const Tensor& x) {
                const auto once = [&](const Tensor& y) { return module->layer(number, y); };
                return module->layer(number + 1, checkpoint(once, x)) + x;
              };
            };
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {0, 1, 3}) x = checkpoint(part(each), x);
            const Tensor other = checkpoint(part(2), numbers(batch + 1000, {4, 6}));
            return (x * other).pow(2).mean();
          }};
}
Net alone() {
  auto module = filled(std::make_shared<torch::nn::LinearImpl>(5, 3));
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {4, 5})).pow(2).mean(); }};
}

const Case kCases[] = {{"TransformerEncoder", encoder},
                       {"Lstm", recurrent},
                       {"Convolution", convolution},
                       {"Embedding", words},
                       {"SparseEmbedding", sparse_words},
                       {"Tied", tied},
                       {"Adapter", adapter},
                       {"Twice", twice},
                       {"Unused", unused},
                       {"TwoForwards", two_forwards},
                       {"Recomputed", recomputed},
                       {"Alone", alone}};

// ---- Beside one process

/// A parameter's values or gradient, in the order of its memory.
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

/// A part of a tensor differs by so much of the whole one's largest element at most: not at all from zeros.
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

/// What one process has that trains on all ranks' batches.
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

enum class Reach { kMemory, kTcp, kMachines };
struct Way {
  Sharding sharding = Sharding::kParameters;
  bool reshard = true;
  std::uint32_t ranks = 2;
  Reach reach = Reach::kMemory;
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  const char* const kNames[] = {"Zero1", "Zero2", "Full"};
  const char* const kReaches[] = {"Memory", "Tcp", "Machines"};
  return out << kNames[static_cast<int>(way.sharding)] << (way.reshard ? "" : "Staying") << "On" << way.ranks
             << kReaches[static_cast<int>(way.reach)];
}

void on_ranks(const Way& way, const Rank& body) {
  const CommunicatorOptions options{.timeout = std::chrono::seconds{20}};
  switch (way.reach) {
    case Reach::kMemory: return run_threads(way.ranks, options, body);
    case Reach::kTcp: return run_streams(way.ranks, options, body);
    case Reach::kMachines: return run_machines(2, way.ranks / 2, options, body);
  }
}

class ShardedTest : public testing::TestWithParam<std::tuple<Case, Way>> {
 protected:
  static const Case& of() { return std::get<Case>(GetParam()); }
  static const Way& way() { return std::get<Way>(GetParam()); }
  static ShardOptions options(const Net& net) { return {.blocks = net.blocks, .reshard_after_forward = way().reshard}; }
};
INSTANTIATE_TEST_SUITE_P(Of, ShardedTest,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(Way{}, Way{.ranks = 1}, Way{.ranks = 3},
                                                          Way{.reshard = false}, Way{.sharding = Sharding::kOptimizer},
                                                          Way{.sharding = Sharding::kGradients},
                                                          Way{.sharding = Sharding::kGradients, .ranks = 3},
                                                          Way{.ranks = 2, .reach = Reach::kTcp},
                                                          Way{.ranks = 4, .reach = Reach::kMachines})),
                         [](const auto& test) {
                           std::ostringstream name;
                           name << std::get<Case>(test.param) << std::get<Way>(test.param);
                           return name.str();
                         });

TEST_P(ShardedTest, GradientsAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options(net)};
    Reference reference{of().make(), ranks.size()};
    net.loss(ranks.rank()).backward();
    reference.backward(0);
    expect_gradients(sharded, reference.gradients(), 1e-12);
  });
}

TEST_P(ShardedTest, TwentyStepsAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options(net)};
    Optimizer optimizer{sharded.groups(0.1), AdamW{.lr = 1e-2}};
    Reference reference{of().make(), ranks.size()};
    for (std::uint64_t step = 0; step < 20; ++step) {
      net.loss(step * ranks.size() + ranks.rank()).backward();
      reference.backward(step);
      EXPECT_NEAR(sharded.clip_norm(0.05), reference.clip(0.05), 1e-9);
      optimizer.step();
      optimizer.zero_grad();
      reference.step();
    }
    expect_values(sharded, reference.values(), 1e-9);
  });
}

/// Wherever in a step it is computed, and whether gradients are asked for or not, a loss is that of the newest
/// parameters. (By AdamW, noise in a gradient that is nothing would be a step of a parameter.)
TEST_P(ShardedTest, LossesBetweenBackwardAndStepAreThoseOfOneProcess) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Sgd rule{.lr = 0.1, .momentum = 0.9};
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options(net)};
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

/// Two backwards are added up, on their way or before it.
TEST_P(ShardedTest, GradientsAddUp) {
  on_ranks(way(), [&](Communicator& ranks) {
    const Net net = of().make();
    Sharded sharded{*net.module, ranks, way().sharding, options(net)};
    Optimizer optimizer{sharded.groups(0.1), AdamW{.lr = 1e-2}};
    Reference reference{of().make(), ranks.size()};
    for (std::uint64_t step = 0; step < 3; ++step) {
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
      expect_gradients(sharded, reference.gradients(), 1e-12);
      optimizer.step();
      optimizer.zero_grad();
      reference.step();
    }
    expect_values(sharded, reference.values(), 1e-9);
  });
}

// ---- In other numbers than those that are kept

/// Of what it computes in bfloat16, the gradients are summed up in float: those of two ranks are the mean of what each
/// has alone, to the bit.
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

/// Gradients of backwards that are summed up here, before they travel, are so in float.
TEST(ShardedNumbers, AddUpInTheTypeThatTravels) {
  on_ranks({.ranks = 1}, [&](Communicator& ranks) {
    const auto module = std::make_shared<torch::nn::LinearImpl>(1, 1);
    Sharded sharded = fully_shard(*module, ranks, {.param = DType::kBF16, .reduce = DType::kF32});
    const Tensor x = torch::ones({1, 1}, torch::kBFloat16);
    {
      const auto alone = sharded.no_sync();
      (module->forward(x) * 256).sum().backward();
      (module->forward(x) * 1).sum().backward();  // 257 is no bfloat16
    }
    (module->forward(x) * 1).sum().backward();
    for (const Tensor& each : sharded.parameters()) EXPECT_EQ(each.grad().item<float>(), 258);
  });
}

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

TEST(ShardedUnits, AreWhatIsAskedFor) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto module = filled(std::make_shared<Encoder>());
    const auto layers = module->encoder->layers->children();
    const Sharded sharded = fully_shard(*module, ranks, {.blocks = {layers[0], layers[2]}});
    const std::string table = sharded.table();
    EXPECT_NE(table.find("encoder.layers.0"), std::string::npos) << table;
    EXPECT_EQ(table.find("encoder.layers.1"), std::string::npos) << table;
    EXPECT_NE(table.find("encoder.layers.2"), std::string::npos) << table;
    module->forward(numbers(ranks.rank(), {5, 3, 8})).backward();
    // In forward and in backward each once, and what stays once; what was used last in forward is there still.
    EXPECT_GE(sharded.last_step().gathers, 3U);
    EXPECT_LE(sharded.last_step().gathers, 5U);
    EXPECT_EQ(sharded.last_step().reductions, 3U);
  });
}

/// Memory for those that pass is that of three, however many there are.
TEST(ShardedUnits, ComeAndGo) {
  on_ranks({}, [&](Communicator& ranks) {
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

// ---- What goes wrong

template <class Exception, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

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
      expect_says(message, "different graphs in step 1");
      expect_says(message, "layers.1");
      expect_says(message, "layers.2");
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
      const std::string message = message_of<Exception>([&] { x.sum().backward(); });
      expect_says(message, "it has had enough");
      EXPECT_EQ(message_of<Exception>([&] { sharded.check(); }), message);
      EXPECT_EQ(message_of<Exception>([&] { sharded.clip_norm(1); }), message);
    });
  }
}

TEST(ShardedFailures, AreToldWhenAModuleIsSharded) {
  on_ranks({}, [&](Communicator& ranks) {
    const auto refused = [&](const std::shared_ptr<torch::nn::Module>& module, const ShardOptions& options = {}) {
      return message_of<Exception>([&] { const Sharded sharded = fully_shard(*module, ranks, options); });
    };
    const auto renorm = std::make_shared<Words>();
    renorm->words->options.max_norm(1.0);
    expect_says(refused(renorm), "\"words\" cannot be sharded: an embedding with max_norm");

    const auto strided = std::make_shared<torch::nn::LinearImpl>(4, 3);
    strided->weight.set_data(torch::ones({4, 3}).t());
    expect_says(refused(strided), "\"weight\" cannot be sharded: it is not contiguous");

    const auto trained = std::make_shared<torch::nn::LinearImpl>(4, 3);
    trained->forward(torch::ones({1, 4})).sum().backward();
    expect_says(refused(trained), "\"weight\" cannot be sharded: it has a gradient already");

    const auto layers = std::make_shared<Layers>();
    const auto other = std::make_shared<torch::nn::LinearImpl>(4, 3);
    expect_says(refused(layers, {.blocks = {other}}), "block 0 of ShardOptions::blocks is not in the module");
    expect_says(refused(layers, {.blocks = {layers->layers.ptr(), layers->layers[1]}}), "have modules in common");
    expect_says(refused(layers, {.param = DType::kI32}), "does not compute in i32");

    const auto different = std::make_shared<torch::nn::LinearImpl>(4, 3 + ranks.rank());
    expect_says(refused(different), "ranks have different modules");
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
      const std::string message = message_of<Exception>([&] { optimizer.step(); });
      expect_says(message, "it has had enough");
      EXPECT_EQ(message_of<Exception>([&] { sharded.weigh(1); }), message);
      EXPECT_EQ(message_of<Exception>([&] { sharded.refresh(); }), message);
      EXPECT_EQ(message_of<Exception>([&] { net.loss(0).backward(); }), message);
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
          expect_says(message, "\" was changed after it had been gathered");
          expect_says(message, "refresh()");
        });
      }
    }
  }
}

// ---- What goes between ranks

/// Blocks of which each is larger than the one before it, used in another order.
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

/// Which of the blocks were gathered (g) and reduced (r), in the order in which that was begun.
class Traffic {
 public:
  Traffic(Communicator ranks, const Unequal& module) : ranks_{std::move(ranks)} {
    for (const auto& block : module.blocks->children()) {
      std::size_t elements = 0;
      for (const Tensor& each : block->parameters()) elements += static_cast<std::size_t>(each.numel());
      elements_.push_back(elements);
    }
  }

  /// Since it was asked for the last time.
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
  /// The largest that fits: what travels has gaps at its end.
  std::string block_of(std::size_t elements) const {
    const auto above = std::upper_bound(elements_.begin(), elements_.end(), elements);
    return std::to_string(above - elements_.begin() - 1);
  }

  Communicator ranks_;
  std::vector<std::size_t> elements_;  // of each block
  std::size_t seen_ = 0;
};

/// The next block is gathered while one is worked on, in forward and in backward; and gradients do not wait for those
/// of blocks that come later in backward, wherever these are in the module.
TEST(ShardedTraffic, GoesBesideTheWork) {
  on_ranks({}, [&](Communicator& ranks) {
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
    // What was used last is there still.
    loss.backward();
    EXPECT_EQ(traffic.next(), " r3 r1 g0 r4 g2 r0 r2");
  });
}

/// What stays and is used at both ends, as an embedding and the head are, fetches the first block once.
TEST(ShardedTraffic, IsNothingThatNobodyNeeds) {
  on_ranks({}, [&](Communicator& ranks) {
    const Net net = tied();
    const Sharded sharded = fully_shard(*net.module, ranks);
    for (std::uint64_t step = 0; step < 3; ++step) net.loss(step).backward();
    // All of them in forward; in backward that of four which is not there still.
    EXPECT_EQ(sharded.last_step().gathers, 5U + 1U);
  });
}

/// What a rank sends over TCP in a step.
std::uint64_t sent_in_a_step(Communicator& ranks, const std::function<void()>& step) {
  constexpr int kSteps = 3;
  for (int i = 0; i < 2; ++i) step();  // the order in which gradients come is learned
  const std::uint64_t before = ranks.bytes_sent();
  for (int i = 0; i < kSteps; ++i) step();
  return (ranks.bytes_sent() - before) / kSteps;
}

/// ZeRO's is Ddp's. Who keeps a part of the parameters has to ask for them twice.
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
    const auto of = [&](Sharding sharding) {
      auto own = make();
      Sharded sharded{*own, ranks, sharding, {}};
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
    // Less what backward begins with, which is there still.
    EXPECT_NEAR(of(Sharding::kParameters), 1.5 - 0.5 * 3 / kBlocks, 0.03);
  });
}

// ---- Recomputation

/// What a part draws by chance is drawn once more, however deep it is; what comes behind it goes on as it would have.
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

/// As if all samples were one batch, however many each rank has.
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
