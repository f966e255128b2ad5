#pragma once

// A module on ranks, and its twin that one process trains: the tests of Ddp compare them.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <pharos/ml/communicator.hpp>

#include "ranks.hpp"

namespace pharos::ml {

using torch::Tensor;

enum class Reach { kMemory, kTcp, kMachines };
struct Ranks {
  std::uint32_t count = 1;
  Reach reach = Reach::kMemory;
};

/// Runs `body` on ranks that are threads. Each rank has a module of its own.
inline void on_ranks(const Ranks& ranks, const Rank& body) {
  const CommunicatorOptions options{.timeout = std::chrono::seconds{20}};
  switch (ranks.reach) {
    case Reach::kMemory: return run_threads(ranks.count, options, body);
    case Reach::kTcp: return run_streams(ranks.count, options, body);
    case Reach::kMachines: return run_machines(2, ranks.count / 2, options, body);
  }
}
inline void on_ranks(std::uint32_t count, const Rank& body) {
  on_ranks(Ranks{count}, body);
}

/// Fills a module with values of a seed, which may differ from rank to rank.
inline void fill(torch::nn::Module& module, std::uint64_t seed) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::NoGradGuard no_grad;
  for (auto& each : module.parameters()) each.normal_(0, 0.2, random);
}

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(std::int64_t in = 7, std::int64_t width = 33, std::int64_t out = 3)
      : first{register_module("first", torch::nn::Linear(in, width))},
        norm{register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))},
        second{register_module("second", torch::nn::Linear(width, out))} {}
  Tensor forward(const Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::LayerNorm norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Mlp);

/// Two modules of the same values: one that a single process trains, and the copy of a rank.
struct Twins {
  explicit Twins(torch::Dtype dtype = torch::kDouble, const Mlp& first = Mlp{}, const Mlp& second = Mlp{})
      : one{first}, copy{second} {
    for (auto* const each : {&one, &copy}) {
      (*each)->to(dtype);
      fill(**each, 3);
    }
  }
  Mlp one;
  Mlp copy;
};

inline Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> sizes, torch::Dtype dtype) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::TensorOptions{}.dtype(dtype));
}

inline Tensor gradients(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& each : module.parameters()) {
    all.push_back((each.grad().defined() ? each.grad() : torch::zeros_like(each)).flatten());
  }
  return torch::cat(all);
}
inline Tensor values(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& each : module.parameters()) all.push_back(each.detach().flatten());
  return torch::cat(all);
}

/// Expects the same bits on all ranks.
inline void expect_alike(Communicator& ranks, const Tensor& own) {
  const Tensor dense = own.contiguous();
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()};
  std::vector<std::byte> all(bytes.size() * ranks.size());
  ranks.all_gather(bytes, std::span{all});
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(std::memcmp(bytes.data(), all.data() + rank * bytes.size(), bytes.size()), 0) << "rank " << rank;
  }
}

/// This rank's part of a batch.
inline Tensor share(const Tensor& batch, const Communicator& ranks) {
  return batch.chunk(ranks.size())[ranks.rank()];
}

class DdpTest : public testing::TestWithParam<Ranks> {};

}  // namespace pharos::ml
