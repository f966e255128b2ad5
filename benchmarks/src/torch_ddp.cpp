// Measures training steps with Ddp beside the same steps of a module that each rank has for itself. Module, data and
// optimizer are the same, and the members of one group run both in alternating blocks of steps.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/ddp.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/optimizer.hpp>

#include "figures.hpp"
#include "torch_figures.hpp"
#include "torch_model.hpp"

namespace bench {
namespace {

namespace ml = pharos::ml;
using torch::Tensor;

/// A module with its optimizer, with or without Ddp.
class Side {
 public:
  explicit Side(ml::Communicator* ranks) {
    if (ranks != nullptr) ddp_.emplace(*ranks, *module_);
    optimizer_.emplace(std::vector<ml::ParameterGroup>{{.parameters = module_->parameters(), .weight_decay = 0.01}},
                       ml::AdamW{.lr = 1e-4});
  }

  void step(const Tensor& x) {
    static_cast<void>(backward(x));
    optimizer_->step();
  }
  /// Returns the seconds of the backward pass.
  double backward(const Tensor& x) {
    optimizer_->zero_grad();
    const Tensor loss = module_->forward(x).pow(2).mean();
    const auto began = Clock::now();
    loss.backward();
    return seconds_since(began);
  }
  std::size_t gradient_bytes() const {
    std::size_t bytes = 0;
    for (const Tensor& each : module_->parameters()) bytes += each.nbytes();
    return bytes;
  }

 private:
  torch::nn::Sequential module_ = blocks();
  std::optional<ml::Ddp> ddp_;
  std::optional<ml::Optimizer> optimizer_;
};

class Rank {
 public:
  std::vector<double> measure(std::int64_t batch, std::int64_t tokens, int pairs) {
    torch::set_num_threads(1);
    ml::Communicator& ranks = ml::communicator();
    torch::manual_seed(ranks.rank() + 1);
    const Tensor x = torch::randn({batch, tokens, kWidth});
    Side with{&ranks};
    Side without{nullptr};
    const auto data = ranks.allocate<float>(with.gradient_bytes() / sizeof(float));

    const auto steps = [&](Side& side, bool meet) {
      return slowest(ranks, [&] {
        for (int i = 0; i < kSteps; ++i) {
          side.step(x);
          if (meet) ranks.barrier();
        }
      });
    };
    const auto add = [&] {
      return slowest(ranks, [&] {
        for (float& each : data.span()) each += 1;
      });
    };
    steps(with, false);
    steps(without, true);
    add();
    const auto reduce = [&] { return slowest(ranks, [&] { ranks.all_reduce(data.span(), ml::Reduction::kMean); }); };
    const auto backward = [&] {
      double time = 0;
      for (int i = 0; i < kSteps; ++i) time += without.backward(x);
      ranks.all_reduce(std::span{&time, 1}, ml::Reduction::kMax);
      return time / kSteps;
    };
    // For each pair: a step with Ddp, a step without, the floor, one reduction of all gradients, a backward pass.
    std::vector<double> found;
    for (int pair = 0; pair < pairs; ++pair) {
      const double first = pair % 2 == 0 ? steps(with, false) : steps(without, true);
      const double second = pair % 2 == 0 ? steps(without, true) : steps(with, false);
      found.push_back((pair % 2 == 0 ? first : second) / kSteps);
      found.push_back((pair % 2 == 0 ? second : first) / kSteps);
      found.push_back(add());
      found.push_back(reduce());
      found.push_back(backward());
    }
    return found;
  }
};

struct Sides {
  std::vector<double> with;
  std::vector<double> without;
  std::vector<double> floor;
  std::vector<double> reduction;
  std::vector<double> backward;
};

Sides measured(pharos::Runtime& runtime, std::uint32_t count, std::int64_t batch, std::int64_t tokens, int pairs,
               const ml::CommunicatorOptions& options = {}) {
  const auto ranks = runtime.spawn_group<Rank>({.name = "ranks", .size = count});
  ml::connect(ranks, options);
  const auto all = ranks.gather<&Rank::measure>(batch, tokens, pairs).get()[0];
  Sides sides;
  for (std::size_t i = 0; i < all.size(); i += 5) {
    sides.with.push_back(all[i]);
    sides.without.push_back(all[i + 1]);
    sides.floor.push_back(all[i + 2]);
    sides.reduction.push_back(all[i + 3]);
    sides.backward.push_back(all[i + 4]);
  }
  return sides;
}

std::vector<double> ratios_of(const Sides& sides) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < sides.with.size(); ++i) ratios.push_back(sides.with[i] / sides.without[i]);
  return ratios;
}

void measure_usual(pharos::Runtime& runtime) {
  const Sides usual = measured(runtime, 2, 4, 128, 60);  // many, because the difference is less than the noise
  say("ddp_step_ms", median(usual.with) * 1e3, "ms");
  say("local_step_ms", median(usual.without) * 1e3, "ms");
  say_with_interval("ddp_step_over_local", ratios_of(usual), "times");
}

void measure_four_ranks(pharos::Runtime& runtime) {
  const Sides four = measured(runtime, 4, 4, 128, 12);
  say("ddp_4_ranks_step_ms", median(four.with) * 1e3, "ms");
  say("local_4_ranks_step_ms", median(four.without) * 1e3, "ms");
  say_with_interval("ddp_4_ranks_step_over_local", ratios_of(four), "times");
}

/// Measures a module that computes little, so that most of a step is communication.
void measure_heavy_communication(pharos::Runtime& runtime) {
  const Sides heavy = measured(runtime, 2, 1, 16, 40);
  std::vector<double> excesses;
  const double floor = median(heavy.floor);
  for (std::size_t i = 0; i < heavy.with.size(); ++i) excesses.push_back((heavy.with[i] - heavy.without[i]) / floor);
  say("ddp_comm_heavy_step_ms", median(heavy.with) * 1e3, "ms");
  say("ddp_comm_heavy_floor_ms", floor * 1e3, "ms");
  say_with_interval("ddp_comm_heavy_excess_over_floor", excesses, "floors");
}

/// Measures the share of the communication over a link of 1 Gbit/s that backward hides.
void measure_overlap(pharos::Runtime& runtime) {
  const Sides far = measured(runtime, 2, 4, 128, 10, {.share_memory = false, .bytes_per_second = 125'000'000});
  const double reduction = median(far.reduction);
  const double backward = median(far.backward);
  std::vector<double> shares;
  for (std::size_t i = 0; i < far.with.size(); ++i) {
    shares.push_back((reduction - (far.with[i] - far.without[i])) / std::min(reduction, backward));
  }
  say("ddp_1gbit_step_ms", median(far.with) * 1e3, "ms");
  say("ddp_1gbit_local_step_ms", median(far.without) * 1e3, "ms");
  say("ddp_1gbit_reduction_ms", reduction * 1e3, "ms");
  say("ddp_1gbit_backward_ms", backward * 1e3, "ms");
  say_with_interval("overlap_hidden_share", shares, "of_the_shorter");
}

}  // namespace

void measure_ddp(pharos::Runtime& runtime, const std::string& only) {
  const auto wants = [&only](const char* beginning) { return only.empty() || only.starts_with(beginning); };
  if (wants("ddp_step") || wants("local_step")) measure_usual(runtime);
  if (wants("ddp_4_ranks") || wants("local_4_ranks")) measure_four_ranks(runtime);
  if (wants("ddp_comm_heavy")) measure_heavy_communication(runtime);
  if (wants("ddp_1gbit") || wants("overlap")) measure_overlap(runtime);
}

}  // namespace bench
