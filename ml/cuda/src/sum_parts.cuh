#pragma once

#include "numbers.cuh"
#include "sum_parts.hpp"

namespace pharos::ml {
namespace {

constexpr unsigned kPartsAtOnce = 16;

/// A block has one warp of columns, and reads all parts of these. The order of the sum is always the same.
template <class T>
__global__ void sum_parts_kernel(SummedParts what) {
  __shared__ float sums[kPartsAtOnce][kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned own = threadIdx.x / kWarp;
  const std::int64_t all = what.to[1] == nullptr ? what.columns : 2 * what.columns;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + lane;
  float sum = 0;
  for (std::int64_t part = own; part < what.count && column < all; part += kPartsAtOnce)
    sum += what.parts[part * all + column];
  sums[own][lane] = sum;
  __syncthreads();
  if (own != 0 || column >= all) return;
  for (unsigned k = 1; k < kPartsAtOnce; ++k) sum += sums[k][lane];
  const bool is_second = column >= what.columns;
  auto* const to = static_cast<T*>(is_second ? what.to[1] : what.to[0]);
  set(to[is_second ? column - what.columns : column], sum);
}

template <class T>
cudaError_t sum_parts(const SummedParts& what, cudaStream_t stream) {
  const std::int64_t all = what.to[1] == nullptr ? what.columns : 2 * what.columns;
  return launch(sum_parts_kernel<T>, static_cast<unsigned>((all + kWarp - 1) / kWarp), kWarp * kPartsAtOnce, stream,
                what);
}

}  // namespace
}  // namespace pharos::ml
