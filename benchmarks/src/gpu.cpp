// pharos-bench-gpu: trains GPT-2 with 124 million parameters in bfloat16 on GPU 0. Prints a line for each figure: its
// name, value and unit. benchmarks/peers/gpu_peer.py trains the same model with PyTorch.

#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <pharos/ml/device.hpp>
#include <pharos/ml/linear_cross_entropy.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/precision.hpp>
#include <pharos/ml/training.hpp>

namespace {

namespace ml = pharos::ml;
namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kVocabulary = 50304;
constexpr std::int64_t kTokens = 1024;
constexpr std::int64_t kWidth = 768;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kBlocks = 12;
constexpr int kWarmSteps = 10;
constexpr int kSteps = 30;

/// Multiplies and adds the bias in one kernel launch. nn::Linear adds the bias in a second launch if its input has
/// three dimensions.
Tensor linear(const nn::Linear& layer, const Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

struct BlockImpl : nn::Module {
  Tensor forward(const Tensor& x) {
    const Tensor attended = x + attend(norm1(x));
    return attended + linear(down, torch::gelu(linear(up, norm2(attended)), "tanh"));
  }
  Tensor attend(const Tensor& x) {
    const auto by_head = [&](const Tensor& part) {
      return part.view({x.size(0), x.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const auto parts = linear(all, x).split(kWidth, 2);
    const Tensor seen = torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                                            /*dropout_p=*/0, /*is_causal=*/true);
    return linear(out, seen.transpose(1, 2).reshape(x.sizes()));
  }
  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear all = register_module("all", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear out = register_module("out", nn::Linear(kWidth, kWidth));
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down = register_module("down", nn::Linear(4 * kWidth, kWidth));
};
TORCH_MODULE(Block);

struct Gpt2Impl : nn::Module {
  Gpt2Impl() {
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block{});
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) {
      if (each.dim() == 2) each.normal_(0, 0.02);
    }
  }
  /// What the output layer works on.
  Tensor hidden(const Tensor& tokens) {
    Tensor x = words(tokens) + places(torch::arange(tokens.size(1), tokens.device()));
    for (const auto& each : *blocks) x = std::static_pointer_cast<BlockImpl>(each)->forward(x);
    return norm(x);
  }
  nn::Embedding words = register_module("words", nn::Embedding(kVocabulary, kWidth));
  nn::Embedding places = register_module("places", nn::Embedding(kTokens, kWidth));
  nn::ModuleList blocks = register_module("blocks", nn::ModuleList());
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
};
TORCH_MODULE(Gpt2);

/// Returns the floating-point operations for one token, forward and backward.
double operations(const nn::Module& module) {
  double parameters = 0;
  for (const Tensor& each : module.parameters()) parameters += static_cast<double>(each.numel());
  return 6 * parameters + 6.0 * kBlocks * kWidth * kTokens;
}

/// A way to use bfloat16.
struct Way {
  const char* name;
  bool keeps_floats_beside;  ///< the module is in bfloat16 and the optimizer keeps float copies; otherwise autocast
  bool has_all_scores;       ///< of all words for all tokens at once; otherwise the loss is linear_cross_entropy()
};
constexpr Way kWays[] = {{"autocast", false, true}, {"bf16", true, true}, {"bf16_some_scores", true, false}};

/// The loss of the model whose output layer shares the weight of the words.
Tensor loss_of(Gpt2& model, const Tensor& tokens, const Tensor& next, const Way& way) {
  const Tensor hidden = model->hidden(tokens);
  const Tensor& weight = model->words->weight;
  if (!way.has_all_scores) return ml::linear_cross_entropy(hidden, weight, next);
  return torch::cross_entropy_loss(torch::linear(hidden, weight).flatten(0, 1), next);
}

void measure(at::Device device, const Way& way, std::int64_t batch) {
  torch::manual_seed(0);
  Gpt2 model;
  model->to(device);
  if (way.keeps_floats_beside) model->to(torch::kBFloat16);
  const auto precision = way.keeps_floats_beside ? ml::Precision::kFloat : ml::Precision::kBf16;
  ml::Optimizer optimizer{ml::groups_of(*model, 0.1), ml::AdamW{.lr = 6e-4, .beta2 = 0.95}};
  const Tensor tokens =
      torch::randint(kVocabulary, {batch, kTokens + 1}, torch::TensorOptions{}.dtype(torch::kLong).device(device));
  const Tensor x = tokens.narrow(1, 0, kTokens).contiguous();
  const Tensor y = tokens.narrow(1, 1, kTokens).contiguous().flatten();
  Tensor loss;
  const auto step = [&] {
    optimizer.zero_grad();
    {
      const ml::Autocast autocast{device, precision};
      loss = loss_of(model, x, y, way);
    }
    loss.backward();
    optimizer.step();
  };
  for (int i = 0; i < kWarmSteps; ++i) step();
  at::accelerator::synchronizeDevice(device.index());
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) step();
  at::accelerator::synchronizeDevice(device.index());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const double rate = static_cast<double>(kSteps * batch * kTokens) / took.count();
  const std::string of = std::string{way.name} + "_batch_" + std::to_string(batch);
  std::printf("gpt2_tokens_per_s_%s %.0f /s\n", of.c_str(), rate);
  std::printf("gpt2_tflops_%s %.1f TFLOPS\n", of.c_str(), rate * operations(*model) / 1e12);
  std::printf("gpt2_loss_%s %.4f nats\n", of.c_str(), loss.item<double>());
  std::fflush(stdout);
}

}  // namespace

int main() {
  try {
    const at::Device device = ml::gpu(0);
    for (const Way& way : kWays) {
      for (const std::int64_t batch : {16, 32}) measure(device, way, batch);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench-gpu: %s\n", e.what());
    return 1;
  }
}
