#pragma once

// The module, the timer and the output that the training benchmarks share. The module is that of torch_peer.py.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/communicator.hpp>

#include "figures.hpp"

namespace bench {

inline constexpr std::int64_t kWidth = 320;
inline constexpr std::int64_t kHeads = 4;
inline constexpr int kBlocks = 8;  // 9.9 million parameters
inline constexpr int kSteps = 5;   // of one side before the turn of the other side

/// Computes the same as torch.nn.TransformerEncoderLayer with norm_first and no dropout.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : attention_norm{register_module("attention_norm", norm())},
        all{register_module("all", torch::nn::Linear(kWidth, 3 * kWidth))},
        out{register_module("out", torch::nn::Linear(kWidth, kWidth))},
        wide_norm{register_module("wide_norm", norm())},
        wide{register_module("wide", torch::nn::Linear(kWidth, 4 * kWidth))},
        narrow{register_module("narrow", torch::nn::Linear(4 * kWidth, kWidth))} {}
  static torch::nn::LayerNorm norm() { return torch::nn::LayerNorm{torch::nn::LayerNormOptions({kWidth})}; }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto parts = all(attention_norm(x)).chunk(3, -1);
    const auto heads = [&](const torch::Tensor& part) { return part.unflatten(-1, {kHeads, -1}).transpose(1, 2); };
    const torch::Tensor seen = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
    const torch::Tensor then = x + out(seen.transpose(1, 2).flatten(2));
    return then + narrow(torch::relu(wide(wide_norm(then))));
  }

  torch::nn::LayerNorm attention_norm;
  torch::nn::Linear all;
  torch::nn::Linear out;
  torch::nn::LayerNorm wide_norm;
  torch::nn::Linear wide;
  torch::nn::Linear narrow;
};
TORCH_MODULE(Block);

inline torch::nn::Sequential blocks() {
  torch::manual_seed(0);
  torch::nn::Sequential module;
  for (int i = 0; i < kBlocks; ++i) module->push_back(Block{});
  return module;
}

/// Returns the seconds that the slowest rank takes for `block`.
inline double slowest(pharos::ml::Communicator& ranks, const std::function<void()>& block) {
  ranks.barrier();
  const auto began = Clock::now();
  block();
  double time = seconds_since(began);
  ranks.all_reduce(std::span{&time, 1}, pharos::ml::Reduction::kMax);
  return time;
}

inline void say(const char* name, double value, const char* unit) {
  std::printf("%s %.9g %s\n", name, value, unit);
}

/// Prints the median of the values of all pairs, and the interval in which the median lies with a probability of 95 %,
/// from the order of the values.
inline void say_with_interval(const std::string& name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  const auto high = std::min(values.size() - 1, values.size() - 1 - low);
  say(name.c_str(), median(values), unit);
  say((name + "_low").c_str(), values[low], unit);
  say((name + "_high").c_str(), values[high], unit);
}

}  // namespace bench
