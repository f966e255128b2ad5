#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <pharos/ml/nccl.hpp>

#include "rank_threads.hpp"

namespace pharos::ml {

inline std::uint32_t count_gpus() {
  int count = 0;
  return ::cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<std::uint32_t>(count) : 0;
}

/// Tests that need a GPU are skipped with a message on a machine without one.
class OnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "not run here: this machine has no GPU";
  }

  using Body = std::function<void(Communicator& ranks, GpuCommunicator& gpus)>;

  /// How the GPUs reach each other: PHAROS_TEST_GPU_PATH is "nccl" or "peers", or not set.
  static GpuPath path() {
    const char* const named = std::getenv("PHAROS_TEST_GPU_PATH");
    if (named == nullptr) return GpuPath::kBest;
    EXPECT_TRUE(named == std::string_view{"nccl"} || named == std::string_view{"peers"}) << named;
    return named == std::string_view{"nccl"} ? GpuPath::kNccl : GpuPath::kPeers;
  }

  /// Runs `body` on every rank. A launcher that has set RANK and WORLD_SIZE has started one process for each rank, and
  /// all of them use GPU 0. Without a launcher ranks are threads: so many on GPU 0 as PHAROS_TEST_RANKS says, or one on
  /// each GPU of this machine.
  static void run(const Body& body) {
    const CommunicatorOptions options{.timeout = std::chrono::seconds{20}, .gpu_path = path()};
    if (std::getenv("WORLD_SIZE") != nullptr) {
      Communicator ranks = Communicator::from_environment(options);
      GpuCommunicator gpus = on_gpu(ranks, 0, options);
      body(ranks, gpus);
      return;
    }
    const char* const on_one = std::getenv("PHAROS_TEST_RANKS");
    const auto count = on_one == nullptr ? count_gpus() : static_cast<std::uint32_t>(std::atoi(on_one));
    run_threads(count, options, [&](Communicator& ranks) {
      const int device = on_one == nullptr ? static_cast<int>(ranks.rank()) : 0;
      ::cudaSetDevice(device);  // its default stream is the one that the body means
      GpuCommunicator gpus = on_gpu(ranks, device, options);
      body(ranks, gpus);
    });
  }
};

template <class T>
std::vector<T> on_host(GpuSpan<const T> data) {
  std::vector<T> copy(data.size());
  EXPECT_EQ(::cudaMemcpy(copy.data(), data.data(), data.size_bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  return copy;
}
template <class T>
void to_gpu(const std::vector<T>& from, GpuSpan<T> to) {
  EXPECT_EQ(::cudaMemcpy(to.data(), from.data(), to.size_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
}

}  // namespace pharos::ml
