#pragma once

// Small modules of each kind that a user may write, in fp64, each with a loss that uses it.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/ml/recompute.hpp>

namespace pharos::ml {

using torch::Tensor;

/// A module, and the loss of one step that uses it.
struct Net {
  std::shared_ptr<torch::nn::Module> module;
  /// The loss of batch `number`.
  std::function<Tensor(std::uint64_t number)> loss;
};

inline Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> sizes) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::kDouble);
}
inline Tensor tokens(std::uint64_t seed, std::vector<std::int64_t> sizes, std::int64_t vocabulary) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randint(0, vocabulary, sizes, random, torch::kLong);
}

/// Fills a module with values that are the same for each module of its type.
template <class Module>
std::shared_ptr<Module> filled(std::shared_ptr<Module> module) {
  module->to(torch::kDouble);
  auto random = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::NoGradGuard no_grad;
  for (auto& each : module->parameters()) each.normal_(0, 0.3, random);
  return module;
}

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
inline Net encoder() {
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
inline Net recurrent() {
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
inline Net convolution() {
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
inline Net words() {
  auto module = filled(std::make_shared<Words>());
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

inline Net sparse_words() {
  auto module = filled(std::make_shared<Words>());
  module->words->options.sparse(true);
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

/// Blocks, and an embedding that shares its weight with the head.
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
inline Net tied() {
  auto module = filled(std::make_shared<Language>());
  return {module, [module](std::uint64_t batch) { return module->forward(tokens(batch, {4, 3}, 11)); }};
}

/// Thin layers that are trained, each beside a layer that is frozen, all in one module.
struct Adapter : torch::nn::Module {
  Adapter() {
    for (int i = 0; i < 3; ++i) {
      const auto name = std::to_string(i);
      base.emplace_back(register_module("base" + name, torch::nn::Linear(7, 7)));
      down.emplace_back(register_module("down" + name, torch::nn::Linear(torch::nn::LinearOptions(7, 2).bias(false))));
      up.emplace_back(register_module("up" + name, torch::nn::Linear(torch::nn::LinearOptions(2, 7).bias(false))));
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
inline Net adapter() {
  auto module = filled(std::make_shared<Adapter>());
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {4, 7})); }};
}

/// The usual form of an adapter: each block has a frozen layer, and trained layers beside it.
struct AdaptedBlock : torch::nn::Module {
  AdaptedBlock() {
    for (auto& each : base->parameters()) each.set_requires_grad(false);
  }
  Tensor forward(const Tensor& x) { return torch::tanh(base(x) + up(down(x))); }
  torch::nn::Linear base = register_module("base", torch::nn::Linear(7, 7));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(torch::nn::LinearOptions(7, 2).bias(false)));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(torch::nn::LinearOptions(2, 7).bias(false)));
};
struct AdaptedBlocks : torch::nn::Module {
  AdaptedBlocks() {
    for (int i = 0; i < 5; ++i) blocks->push_back(std::make_shared<AdaptedBlock>());
  }
  Tensor forward(Tensor x) {
    for (const auto& each : *blocks) x = each->as<AdaptedBlock>()->forward(x);
    return x.pow(2).mean();
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
};
inline Net adapted_blocks() {
  auto module = filled(std::make_shared<AdaptedBlocks>());
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
inline Net twice() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {0, 1, 2, 0, 3, 4, 1}) x = module->layer(each, x);
            return x.pow(2).mean();
          }};
}
inline Net unused() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {4, 1}) x = module->layer(each, x);
            return x.pow(2).mean();
          }};
}
inline Net two_forwards() {
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
/// One operator uses more layers at once than there are spare buffers for gathered units. A later layer must not take
/// the buffer of an earlier one.
inline Net at_once() {
  auto module = filled(std::make_shared<Layers>());
  return {module, [module](std::uint64_t batch) {
            Tensor x = numbers(batch, {4, 6});
            for (const std::size_t each : {0, 1, 2, 3, 4}) x = module->layer(each, x);
            std::vector<Tensor> weights;
            for (const std::size_t each : {0, 1, 2}) {
              weights.push_back(module->layers[each]->as<torch::nn::Linear>()->weight);
            }
            return x.pow(2).mean() + 0.1 * torch::stack(weights).pow(2).mean();
          }};
}
/// Each layer is recomputed in backward, and pairs of layers are too.
inline Net recomputed() {
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
inline Net alone() {
  auto module = filled(std::make_shared<torch::nn::LinearImpl>(5, 3));
  return {module, [module](std::uint64_t batch) { return module->forward(numbers(batch, {4, 5})).pow(2).mean(); }};
}

}  // namespace pharos::ml
