// The part of CUDA's language that the kernels of ml/nccl and ml/cuda use, for simulated devices. A file that is
// compiled with nvcc elsewhere is included after this header. Its kernels then run on the thread of their stream, with
// the same blocks and threads.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cmath>
#include <tuple>

#include "cuda/kernels.hpp"
#include "order.hpp"
#include "queues.hpp"

#define __global__
#define __device__
#define __shared__ static thread_local
#define __launch_bounds__(threads)

inline thread_local dim3 gridDim;
inline thread_local dim3 blockDim;
inline thread_local dim3 blockIdx;
inline thread_local dim3 threadIdx;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline void __syncthreads() {
  pharos::simulated::wait_for_block(true);
}
inline int __syncthreads_and(int value) {
  return pharos::simulated::wait_for_block(value != 0) ? 1 : 0;
}
/// All threads of the block call it, and not only those of a warp.
inline float __shfl_xor_sync(unsigned, float value, unsigned lanes) {
  constexpr unsigned kThreadsMax = 1024;
  static thread_local float values[kThreadsMax];
  values[threadIdx.x] = value;
  __syncthreads();
  const float other = values[threadIdx.x ^ lanes];
  __syncthreads();
  return other;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline void __threadfence_system() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// Two functions for the kernel's arguments are found where their types are declared: note_uses() tells the order
/// checker which memory the kernel will use, and as_kernels_see() changes the arguments, when the kernel begins, so
/// that their addresses are those that kernels use. What the latter returns lives until the kernel has ended.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using namespace pharos::simulated;
  Queue& queue = *reinterpret_cast<Queue*>(config->stream);
  note_uses(order().begin(queue.number()), arguments...);
  const auto turns = queue.queued() % 2 == 0 ? Turns::kFirstBegins : Turns::kLastBegins;
  queue.push([blocks = config->gridDim, threads = config->blockDim, turns, kernel,
              all = std::tuple<Parameters...>{arguments...}]() mutable {
    [[maybe_unused]] const auto lives = std::apply([](auto&... each) { return as_kernels_see(each...); }, all);
    run_blocks(blocks, threads, turns, [&] { std::apply(kernel, all); });
  });
  return cudaSuccess;
}
