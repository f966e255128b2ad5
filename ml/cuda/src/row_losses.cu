#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <type_traits>

#include "row_losses.hpp"

namespace pharos::ml {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kBytesAtOnce = 16;
constexpr float kNothing = -HUGE_VALF;

__device__ float as_float(float from) {
  return from;
}
__device__ float as_float(__half from) {
  return __half2float(from);
}
__device__ float as_float(__nv_bfloat16 from) {
  return __bfloat162float(from);
}
__device__ void set(float& to, float from) {
  to = from;
}
__device__ void set(__half& to, float from) {
  to = __float2half_rn(from);
}
__device__ void set(__nv_bfloat16& to, float from) {
  to = __float2bfloat16_rn(from);
}

template <class T, unsigned kLength>
struct alignas(kLength * sizeof(T)) Scores {
  T each[kLength];
};

struct Most {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// Joins the values of all threads of the block, always in the same order.
template <class Join>
__device__ float joined(float value, float* places, const Join& join) {
  places[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half != 0; half /= 2) {
    if (threadIdx.x < half) places[threadIdx.x] = join(places[threadIdx.x], places[threadIdx.x + half]);
    __syncthreads();
  }
  const float all = places[0];
  __syncthreads();
  return all;
}

/// A block has a row, reads it twice, and writes it once. The second time it comes from the GPU's cache.
template <class T, unsigned kLength>
__global__ void row_losses_kernel(ScoredRows what) {
  using Several = Scores<T, kLength>;
  __shared__ float places[kThreads];
  const std::int64_t row = blockIdx.x;
  T* const scores = static_cast<T*>(what.scores) + row * what.columns;
  auto* const several = reinterpret_cast<Several*>(scores);
  const std::int64_t count = what.columns / kLength;
  const std::int64_t target = what.targets[row];
  const bool counts = target != what.ignored;
  const bool is_column = target >= 0 && target < what.columns;
  const float wanted = is_column ? as_float(scores[target]) : NAN;

  float most = kNothing;
  float sum = 0;  // of e^(score - most)
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const Several own = several[i];
    float highest = as_float(own.each[0]);
    for (unsigned k = 1; k < kLength; ++k) highest = Most{}(highest, as_float(own.each[k]));
    if (highest > most || highest != highest) {
      sum *= expf(most - highest);
      most = highest;
    }
    if (most == kNothing) continue;  // all of them are minus infinity so far, and add nothing
    for (unsigned k = 0; k < kLength; ++k) sum += expf(as_float(own.each[k]) - most);
  }
  const float most_of_all = joined(most, places, Most{});
  const float sum_of_all = joined(most == kNothing ? 0 : sum * expf(most - most_of_all), places, Sum{});
  if (threadIdx.x == 0) what.losses[row] = counts ? logf(sum_of_all) + most_of_all - wanted : 0;
  if (!what.gradients) return;
  const float factor = counts ? 1 / sum_of_all : 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    Several own = several[i];
    for (unsigned k = 0; k < kLength; ++k) {
      const float share = counts ? expf(as_float(own.each[k]) - most_of_all) * factor : 0;
      set(own.each[k], i * kLength + k == target && counts ? share - 1 : share);
    }
    several[i] = own;
  }
}

template <class T, unsigned kLength>
cudaError_t launch(const ScoredRows& rows, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(rows.rows);
  config.blockDim = kThreads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, row_losses_kernel<T, kLength>, rows);
}

template <class T>
cudaError_t compute_as(const ScoredRows& rows, cudaStream_t stream) {
  constexpr unsigned kLength = kBytesAtOnce / sizeof(T);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(rows.scores) % kBytesAtOnce == 0;
  return is_aligned && rows.columns % kLength == 0 ? launch<T, kLength>(rows, stream) : launch<T, 1>(rows, stream);
}

}  // namespace

cudaError_t compute_row_losses(ScoreType type, const ScoredRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return cudaSuccess;
  switch (type) {
    case ScoreType::kFloat: return compute_as<float>(rows, stream);
    case ScoreType::kHalf: return compute_as<__half>(rows, stream);
    case ScoreType::kBFloat16: return compute_as<__nv_bfloat16>(rows, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace pharos::ml
