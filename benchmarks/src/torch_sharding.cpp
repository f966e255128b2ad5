// Measures training steps of a module that the ranks divide among them, beside the same steps of a module that each
// rank has for itself. Module, data and optimizer are the same, and the members of one group run both in alternating
// blocks of steps. Also measures the memory that both take.

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/group.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/recompute.hpp>
#include <pharos/ml/sharded.hpp>

#include "figures.hpp"
#include "torch_figures.hpp"
#include "torch_model.hpp"

namespace bench {
namespace {

namespace ml = pharos::ml;
using torch::Tensor;

/// Counts the bytes of libtorch's tensors on the CPU. It takes the place of libtorch's CPU allocator, and passes all
/// requests on to that allocator. Products of bfloat16 matrices fail with it, because libtorch asks for their temporary
/// memory by raw_allocate(), which needs an allocator whose memory is its own context.
class Counting final : public c10::Allocator {
 public:
  static Counting& of_process() {
    static Counting* const one = [] {
      auto* const made = new Counting{c10::GetCPUAllocator()};
      c10::SetCPUAllocator(made, 255);
      return made;
    }();
    return *one;
  }
  std::size_t bytes() const { return bytes_.load(); }
  /// The largest number of bytes since begin_peak().
  std::size_t peak() const { return peak_.load(); }
  void begin_peak() { peak_ = bytes_.load(); }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = below_->allocate(bytes);
    const std::size_t now = bytes_ += bytes;
    for (std::size_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) {
    }
    void* const data = memory.get();
    return {data, new Block{std::move(memory), bytes}, &Counting::free, c10::Device{c10::kCPU}};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { below_->copy_data(to, from, bytes); }

 private:
  struct Block {
    c10::DataPtr memory;
    std::size_t bytes;
  };
  explicit Counting(c10::Allocator* below) : below_{below} {}
  static void free(void* context) {
    const std::unique_ptr<Block> block{static_cast<Block*>(context)};
    of_process().bytes_ -= block->bytes;
  }

  c10::Allocator* const below_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> peak_{0};
};

/// Returns this rank's part of the memory that the ranks share. Each rank has mapped the memory of all ranks, and each
/// rank provides the same amount.
std::size_t shared_bytes(std::uint32_t ranks) {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("pharos-collective") == std::string::npos) continue;
    std::size_t read = 0;
    const std::uint64_t begin = std::stoull(line, &read, 16);
    bytes += std::stoull(line.substr(read + 1), nullptr, 16) - begin;
  }
  return bytes / ranks;
}

/// Stands beside the values of ml::Sharding: the module is not divided.
constexpr int kWhole = -1;

/// A module with its optimizer, whole or divided among the ranks. With `bf16` the module computes in bfloat16, the
/// optimizer works on floats, and ranks sum gradients as floats.
class Side {
 public:
  Side(ml::Communicator& ranks, int sharding, bool bf16) {
    const ml::AdamW adam{.lr = 1e-4};
    if (sharding == kWhole) {
      if (bf16) module_->to(torch::kBFloat16);
      optimizer_.emplace(std::vector<ml::ParameterGroup>{{.parameters = module_->parameters(), .weight_decay = 0.01}},
                         adam);
      return;
    }
    ml::ShardOptions options;
    if (bf16) {
      options.param = ml::DType::kBF16;
      options.reduce = ml::DType::kF32;
    }
    sharded_.emplace(*module_, ranks, static_cast<ml::Sharding>(sharding), options);
    optimizer_.emplace(std::vector<ml::ParameterGroup>{{.parameters = sharded_->parameters(), .weight_decay = 0.01}},
                       adam);
  }

  void step(const Tensor& x) {
    optimizer_->zero_grad();
    module_->forward(x).pow(2).mean().backward();
    optimizer_->step();
  }
  void step_again(const Tensor& x) {
    optimizer_->zero_grad();
    Tensor y = x;
    for (const auto& each : module_->children()) {
      y = ml::checkpoint([each](const Tensor& in) { return each->as<BlockImpl>()->forward(in); }, y);
    }
    y.pow(2).mean().backward();
    optimizer_->step();
  }
  std::int64_t parameters() const {
    std::int64_t count = 0;
    for (const Tensor& each : module_->parameters()) count += each.numel();
    return count;
  }

 private:
  torch::nn::Sequential module_ = blocks();
  std::optional<ml::Sharded> sharded_;
  std::optional<ml::Optimizer> optimizer_;
};

class Rank {
 public:
  /// Returns pairs of seconds: a step of the divided module, then a step of the whole one.
  std::vector<double> measure(int sharding, bool bf16, int pairs) {
    ml::Communicator& ranks = begin();
    if (bf16) x_ = x_.to(torch::kBFloat16);
    Side with{ranks, sharding, bf16};
    Side without{ranks, kWhole, bf16};
    return pairs_of(
        ranks, pairs, [&] { with.step(x_); },
        [&] {
          without.step(x_);
          ranks.barrier();
        });
  }
  std::vector<double> measure_recomputing(int pairs) {
    ml::Communicator& ranks = begin();
    Side one{ranks, kWhole, false};
    return pairs_of(
        ranks, pairs, [&] { one.step_again(x_); }, [&] { one.step(x_); });
  }

  /// Returns three numbers: this rank's bytes between two steps, its largest number of bytes within a step, and the
  /// number of the module's parameters.
  std::vector<double> memory(int sharding) {
    Counting& counting = Counting::of_process();
    ml::Communicator& ranks = begin();
    const std::size_t before = counting.bytes() + shared_bytes(ranks.size());
    Side side{ranks, sharding, false};
    for (int i = 0; i < 3; ++i) side.step(x_);
    const std::size_t shared = shared_bytes(ranks.size());
    const std::size_t now = counting.bytes() + shared;
    counting.begin_peak();
    side.step(x_);
    return {static_cast<double>(now - before), static_cast<double>(counting.peak() + shared - before),
            static_cast<double>(side.parameters())};
  }

  /// Returns pairs of nanoseconds for one operator: while the operators are watched because a sharded module exists,
  /// and while no sharded module exists.
  std::vector<double> operators(int rounds) {
    constexpr int kOperators = 20'000;
    ml::Communicator& ranks = begin();
    Tensor x = torch::zeros({1});
    const at::NoGradGuard no_grad;
    const auto run = [&] {
      const auto began = Clock::now();
      for (int i = 0; i < kOperators; ++i) x.add_(x);
      return seconds_since(began) / kOperators * 1e9;
    };
    std::vector<double> found;
    torch::nn::Sequential module = blocks();
    for (int round = 0; round < rounds; ++round) {
      {
        torch::nn::Linear some{4, 4};
        const ml::Sharded sharded = ml::fully_shard(*some, ranks);
        found.push_back(run());
      }
      found.push_back(run());
    }
    return found;
  }

 private:
  ml::Communicator& begin() {
    torch::set_num_threads(1);
    ml::Communicator& ranks = ml::communicator();
    torch::manual_seed(ranks.rank() + 1);
    x_ = torch::randn({4, 128, kWidth});
    return ranks;
  }
  template <class With, class Without>
  static std::vector<double> pairs_of(ml::Communicator& ranks, int pairs, const With& with, const Without& without) {
    const auto block = [&](const auto& step) {
      return slowest(ranks, [&] {
        for (int i = 0; i < kSteps; ++i) step();
      });
    };
    block(with);
    block(without);
    std::vector<double> found;
    for (int pair = 0; pair < pairs; ++pair) {
      const bool is_first = pair % 2 == 0;
      const double first = is_first ? block(with) : block(without);
      const double second = is_first ? block(without) : block(with);
      found.push_back((is_first ? first : second) / kSteps);
      found.push_back((is_first ? second : first) / kSteps);
    }
    return found;
  }

  Tensor x_;
};

// ---- Steps

/// Steps of the divided module beside steps of the whole one. The figures are `name` with "_step_ms" and
/// "_step_over_local" behind it.
struct Steps {
  const char* name;
  ml::Sharding sharding;
  int pairs;
  std::uint32_t ranks = 2;
  bool bf16 = false;
  bool over_tcp = false;  ///< the ranks do not share memory
};
// Float ranks that share memory read the same parameters and gather nothing. The ranks of `fsdp_bf16` gather, because
// they keep floats and compute in bfloat16. Those of `fsdp_tcp` gather, because they have no memory in common.
constexpr Steps kSteppings[] = {
    {.name = "fsdp", .sharding = ml::Sharding::kParameters, .pairs = 40},
    {.name = "zero1", .sharding = ml::Sharding::kOptimizer, .pairs = 40},
    {.name = "zero2", .sharding = ml::Sharding::kGradients, .pairs = 20},
    {.name = "fsdp_bf16", .sharding = ml::Sharding::kParameters, .pairs = 40, .bf16 = true},
    {.name = "fsdp_tcp", .sharding = ml::Sharding::kParameters, .pairs = 20, .over_tcp = true},
    {.name = "fsdp_4_ranks", .sharding = ml::Sharding::kParameters, .pairs = 12, .ranks = 4},
    {.name = "zero1_4_ranks", .sharding = ml::Sharding::kOptimizer, .pairs = 12, .ranks = 4},
};

// ---- Memory

/// The memory of a rank between two steps, beside the published formula.
struct Memory {
  const char* name;
  ml::Sharding sharding;
  /// Returns the bytes of the parameter, its gradient and two numbers of AdamW, all in float, for each parameter and
  /// rank (Rajbhandari and others, 2020, with floats in place of halves).
  double (*formula)(double ranks);
};
constexpr Memory kMemories[] = {
    {"fsdp", ml::Sharding::kParameters, [](double ranks) { return (4 + 4 + 8) / ranks; }},
    {"zero1", ml::Sharding::kOptimizer, [](double ranks) { return 4 + 4 + 8 / ranks; }},
    {"zero2", ml::Sharding::kGradients, [](double ranks) { return 4 + (4 + 8) / ranks; }},
};

template <class Ask>
std::vector<double> ask(pharos::Runtime& runtime, std::uint32_t count, const ml::CommunicatorOptions& options,
                        const Ask& ask_all) {
  const auto ranks = runtime.spawn_group<Rank>({.name = "ranks", .size = count});
  ml::connect(ranks, options);
  return ask_all(ranks)[0];
}

void say_pairs(const std::string& name, const std::string& than, const std::vector<double>& pairs) {
  std::vector<double> with;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    with.push_back(pairs[i]);
    ratios.push_back(pairs[i] / pairs[i + 1]);
  }
  say((name + "_step_ms").c_str(), median(with) * 1e3, "ms");
  say_with_interval(than, ratios, "times");
}

void say_steps(pharos::Runtime& runtime, const Steps& steps) {
  const auto ask_all = [&](const auto& ranks) {
    return ranks.template gather<&Rank::measure>(static_cast<int>(steps.sharding), steps.bf16, steps.pairs).get();
  };
  const std::string name = steps.name;
  say_pairs(name, name + "_step_over_local", ask(runtime, steps.ranks, {.share_memory = !steps.over_tcp}, ask_all));
}

/// Prints and returns the numbers of Rank::memory().
std::vector<double> say_memory(pharos::Runtime& runtime, const std::string& name, int sharding, std::uint32_t ranks) {
  auto memory =
      ask(runtime, ranks, {}, [&](const auto& all) { return all.template gather<&Rank::memory>(sharding).get(); });
  say((name + "_memory_mib").c_str(), memory[0] / (1 << 20), "MiB");
  say((name + "_peak_mib").c_str(), memory[1] / (1 << 20), "MiB");
  return memory;
}

void say_memory_beside_formula(pharos::Runtime& runtime, const Memory& kind, std::uint32_t ranks) {
  const std::string name = kind.name + (ranks == 2 ? std::string{} : "_" + std::to_string(ranks) + "_ranks");
  const auto memory = say_memory(runtime, name, static_cast<int>(kind.sharding), ranks);
  const double formula = memory[2] * kind.formula(ranks);
  say((name + "_memory_formula_mib").c_str(), formula / (1 << 20), "MiB");
  say((name + "_memory_excess_mib").c_str(), (memory[0] - formula) / (1 << 20), "MiB");
  say((name + "_memory_over_formula").c_str(), memory[0] / formula, "times");
}

}  // namespace

void measure_sharding(pharos::Runtime& runtime, const std::string& only) {
  const auto wants = [&only](const std::string& beginning) { return only.empty() || only.starts_with(beginning); };
  for (const Steps& each : kSteppings) {
    if (wants(std::string{each.name} + "_step")) say_steps(runtime, each);
  }
  for (const std::uint32_t ranks : {2U, 4U}) {
    for (const Memory& each : kMemories) {
      const std::string name = each.name + std::string{ranks == 2 ? "" : "_4_ranks"};
      if (wants(name + "_memory") || wants(name + "_peak")) say_memory_beside_formula(runtime, each, ranks);
    }
  }
  if (wants("local")) say_memory(runtime, "local", kWhole, 2);
  if (wants("recompute")) {
    say_pairs("recompute", "recompute_over_plain", ask(runtime, 2, {}, [](const auto& ranks) {
                return ranks.template gather<&Rank::measure_recomputing>(20).get();
              }));
  }
  if (!wants("auto_form")) return;
  const auto operators =
      ask(runtime, 2, {}, [](const auto& ranks) { return ranks.template gather<&Rank::operators>(31).get(); });
  std::vector<double> more;
  for (std::size_t i = 0; i < operators.size(); i += 2) more.push_back(operators[i] - operators[i + 1]);
  say("auto_form_overhead_ns_per_op", median(more), "ns");
}

}  // namespace bench
