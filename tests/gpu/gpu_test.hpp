#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include <pharos/ml/device.hpp>

namespace pharos::ml {

/// Tests on GPU 0, which is real, or simulated in programs of tests/device.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const bool has_gpu = at::isPrivateUse1HooksRegistered() || std::filesystem::exists("/dev/nvidiactl");
    if (!has_gpu) GTEST_SKIP() << "not run here: this machine has no GPU";
    at::globalContext().setAllowTF32CuBLAS(false);
    gpu_ = gpu(0);
  }

  at::Device gpu_{at::kCPU};
};

/// Random numbers on the host.
inline torch::Tensor random_numbers(std::uint64_t seed, const std::vector<std::int64_t>& sizes,
                                    torch::Dtype dtype = torch::kDouble) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::TensorOptions{}.dtype(dtype));
}

inline double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace pharos::ml
