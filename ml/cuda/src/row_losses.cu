#include <cmath>

#include "numbers.cuh"
#include "row_losses.hpp"

namespace pharos::ml {
namespace {

constexpr unsigned kThreads = 1024;  // so few rows at once that they fit into the cache
constexpr float kNothing = -HUGE_VALF;

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
  using Scores = Several<T, kLength>;
  __shared__ float places[kThreads];
  const std::int64_t row = blockIdx.x;
  T* const scores = static_cast<T*>(what.scores) + row * what.columns;
  auto* const several = reinterpret_cast<Scores*>(scores);
  const std::int64_t count = what.columns / kLength;
  const std::int64_t target = what.targets[row];
  const bool counts = target != what.ignored;
  const bool is_column = target >= 0 && target < what.columns;
  const float wanted = is_column ? as_float(scores[target]) : NAN;

  float most = kNothing;
  float sum = 0;  // of e^(score - most)
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const Scores own = several[i];
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
    Scores own = several[i];
    for (unsigned k = 0; k < kLength; ++k) {
      const float share = counts ? expf(as_float(own.each[k]) - most_of_all) * factor : 0;
      set(own.each[k], i * kLength + k == target && counts ? share - 1 : share);
    }
    several[i] = own;
  }
}

template <class T>
cudaError_t compute_as(const ScoredRows& rows, cudaStream_t stream) {
  constexpr unsigned kLength = kBytesAtOnce / sizeof(T);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(rows.scores) % kBytesAtOnce == 0;
  const bool takes_several = is_aligned && rows.columns % kLength == 0;
  const auto kernel = takes_several ? row_losses_kernel<T, kLength> : row_losses_kernel<T, 1>;
  return launch(kernel, static_cast<unsigned>(rows.rows), kThreads, stream, rows);
}

}  // namespace

cudaError_t compute_row_losses(NumberType type, const ScoredRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return cudaSuccess;
  return with_type(type, [&]<class T>(T) { return compute_as<T>(rows, stream); });
}

}  // namespace pharos::ml
