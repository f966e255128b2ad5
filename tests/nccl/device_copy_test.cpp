// Bytes that go to a GPU and come back are the same, and the test prints how fast they went.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>

#include "gpu_ranks.hpp"

namespace pharos::ml {
namespace {

using DeviceCopy = OnGpus;

constexpr std::size_t kBytes = std::size_t{256} << 20;

/// The best of five runs, in bytes a second.
double rate_of(const std::function<cudaError_t()>& copy) {
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(copy(), cudaSuccess);
    EXPECT_EQ(::cudaDeviceSynchronize(), cudaSuccess);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(kBytes) / took.count());
  }
  return best;
}
void print(const std::string& what, double bytes_per_second) {
  std::cout << what << ": " << bytes_per_second / 1e9 << " GB/s\n";
}

TEST_F(DeviceCopy, BytesComeBackAsTheyWent) {
  void* from = nullptr;
  void* back = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(::cudaMallocHost(&from, kBytes), cudaSuccess);
  ASSERT_EQ(::cudaMallocHost(&back, kBytes), cudaSuccess);
  ASSERT_EQ(::cudaMalloc(&first, kBytes), cudaSuccess);
  ASSERT_EQ(::cudaMalloc(&second, kBytes), cudaSuccess);
  auto* const words = static_cast<std::uint32_t*>(from);
  for (std::size_t i = 0; i < kBytes / sizeof *words; ++i) words[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
  std::memset(back, 0, kBytes);

  print("pinned host memory to the GPU",
        rate_of([&] { return ::cudaMemcpyAsync(first, from, kBytes, cudaMemcpyHostToDevice); }));
  print("GPU memory to GPU memory (bytes read; as many are written)",
        rate_of([&] { return ::cudaMemcpyAsync(second, first, kBytes, cudaMemcpyDeviceToDevice); }));
  print("the GPU to pinned host memory",
        rate_of([&] { return ::cudaMemcpyAsync(back, second, kBytes, cudaMemcpyDeviceToHost); }));
  EXPECT_EQ(std::memcmp(from, back, kBytes), 0);

  ::cudaFree(second);
  ::cudaFree(first);
  ::cudaFreeHost(back);
  ::cudaFreeHost(from);
}

}  // namespace
}  // namespace pharos::ml
