#include <algorithm>

#include "column_sums.hpp"
#include "numbers.cuh"
#include "sum_parts.cuh"

namespace pharos::ml {
namespace {

// A block has some columns, as many as a warp reads at once, and some of the rows. Each of its warps has every
// kWarps-th of these rows.
constexpr unsigned kWarps = 8;
constexpr unsigned kRowsAtOnce = 4;  // whose numbers a thread awaits at the same time
constexpr unsigned kBlocksPerProcessor = 4;

/// The derivative of gelu in its form with tanh.
__device__ float gelu_slope(float x) {
  constexpr float kFactor = 0.7978845608028654F;  // sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const float bent = tanhf(kFactor * (x + kCubic * x * x * x));
  return 0.5F * (1 + bent) + 0.5F * x * (1 - bent * bent) * kFactor * (1 + 3 * kCubic * x * x);
}

template <class T, bool kIsGelu>
__global__ void sum_columns_kernel(ColumnSums what) {
  using Numbers = Several<T>;
  constexpr unsigned kLength = Numbers::kLength;
  __shared__ float sums[kWarps][kWarp * kLength];
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const std::int64_t count = what.columns / kLength;
  const std::int64_t tiles = (count + kWarp - 1) / kWarp;
  const std::int64_t at = blockIdx.x % tiles * kWarp + lane;
  const std::int64_t part = blockIdx.x / tiles;
  const std::int64_t step = what.part_count * kWarps;

  float own[kLength] = {};
  for (std::int64_t first = part * kWarps + warp; first < what.rows && at < count; first += step * kRowsAtOnce) {
    Numbers numbers[kRowsAtOnce] = {};
    Numbers before[kIsGelu ? kRowsAtOnce : 1] = {};
#pragma unroll
    for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= what.rows) continue;
      numbers[k] = static_cast<const Numbers*>(what.rows_of)[row * count + at];
      if constexpr (kIsGelu) before[k] = static_cast<const Numbers*>(what.before_gelu)[row * count + at];
    }
#pragma unroll
    for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= what.rows) continue;
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) {
        if constexpr (kIsGelu)
          set(numbers[k].each[i], as_float(numbers[k].each[i]) * gelu_slope(as_float(before[k].each[i])));
        own[i] += as_float(numbers[k].each[i]);
      }
      if constexpr (kIsGelu) static_cast<Numbers*>(what.of_before)[row * count + at] = numbers[k];
    }
  }
#pragma unroll
  for (unsigned i = 0; i < kLength; ++i) sums[warp][lane * kLength + i] = own[i];
  __syncthreads();
  for (unsigned k = threadIdx.x; k < kWarp * kLength; k += kWarps * kWarp) {
    const std::int64_t column = blockIdx.x % tiles * kWarp * kLength + k;
    if (column >= what.columns) continue;
    float sum = 0;
    for (unsigned each = 0; each < kWarps; ++each) sum += sums[each][k];
    what.parts[part * what.columns + column] = sum;
  }
}

std::int64_t tiles_of(NumberType type, std::int64_t columns) {
  const std::int64_t tile = kWarp * (type == NumberType::kFloat ? Several<float>::kLength : Several<__half>::kLength);
  return (columns + tile - 1) / tile;
}

}  // namespace

bool sums_columns(NumberType type, std::int64_t columns) {
  const unsigned length = type == NumberType::kFloat ? Several<float>::kLength : Several<__half>::kLength;
  return columns > 0 && columns % length == 0;
}

std::int64_t column_part_count(NumberType type, std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = std::int64_t{kBlocksPerProcessor} * processors_of_device();
  return std::clamp<std::int64_t>(blocks / tiles_of(type, columns), 1, std::max<std::int64_t>(rows / kWarps, 1));
}

cudaError_t sum_columns(NumberType type, const ColumnSums& what, cudaStream_t stream) {
  return with_type(type, [&]<class T>(T) {
    const auto kernel = what.before_gelu == nullptr ? sum_columns_kernel<T, false> : sum_columns_kernel<T, true>;
    const auto blocks = static_cast<unsigned>(what.part_count * tiles_of(type, what.columns));
    const cudaError_t begun = launch(kernel, blocks, kWarps * kWarp, stream, what);
    if (begun != cudaSuccess) return begun;
    return sum_parts<T>({what.parts, what.part_count, what.columns, {what.sums, nullptr}}, stream);
  });
}

}  // namespace pharos::ml
