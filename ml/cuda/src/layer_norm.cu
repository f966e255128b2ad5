#include <algorithm>

#include "layer_norm.hpp"
#include "numbers.cuh"
#include "sum_parts.cuh"

namespace pharos::ml {
namespace {

// A group of threads has a row: each thread reads up to kValuesMax of its numbers once, and keeps them.
constexpr unsigned kNormThreads = 256;
constexpr unsigned kValuesMax = 32;
constexpr unsigned kGroupMax = 512;
constexpr unsigned kNormBlocks = 8;     // for each processor of the GPU
constexpr unsigned kNormSumBlocks = 2;  // the same, of those that sum the gradients of their rows

constexpr unsigned threads_of_block(unsigned group) {
  return group > kNormThreads ? group : kNormThreads;
}

/// The sum over the threads of a group, always in the same order. All threads of the block call it. `places` has room
/// for one float for each warp.
template <unsigned kGroup>
__device__ float sum_of_group(float value, float* places) {
  for (unsigned lanes = kWarp / 2; lanes != 0; lanes /= 2) value += __shfl_xor_sync(~0U, value, lanes);
  if constexpr (kGroup > kWarp) {
    if (threadIdx.x % kWarp == 0) places[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = 0;
    for (unsigned k = 0; k < kGroup / kWarp; ++k) value += places[threadIdx.x / kGroup * (kGroup / kWarp) + k];
    __syncthreads();
  }
  return value;
}

/// The numbers of a row that a thread has: some side by side, and then as many again, kGroup times further.
template <class T, unsigned kGroup, unsigned kValues>
struct Layout {
  using Numbers = Several<T>;
  static constexpr unsigned kThreadsOfBlock = threads_of_block(kGroup);
  static constexpr unsigned kGroups = kThreadsOfBlock / kGroup;
  static constexpr unsigned kCount = kValues / Numbers::kLength;

  static __device__ unsigned group() { return threadIdx.x / kGroup; }
  /// Where the thread's k-th Numbers are in a row.
  static __device__ std::int64_t at(unsigned k) { return threadIdx.x % kGroup + k * kGroup; }
};

template <class T, unsigned kGroup, unsigned kValues, bool kAdds>
__global__ void normalize_kernel(NormalizedRows what) {
  using L = Layout<T, kGroup, kValues>;
  using Numbers = typename L::Numbers;
  constexpr unsigned kLength = Numbers::kLength;
  __shared__ float places[L::kThreadsOfBlock / kWarp];
  const std::int64_t count = what.columns / kLength;
  const auto columns = static_cast<float>(what.columns);

  for (std::int64_t first = std::int64_t{blockIdx.x} * L::kGroups; first < what.rows;
       first += std::int64_t{gridDim.x} * L::kGroups) {
    const std::int64_t row = first + L::group();
    const std::int64_t begin = row * count;
    const auto is_there = [&](unsigned k) { return row < what.rows && L::at(k) < count; };
    Numbers own[L::kCount] = {};
    float sum = 0;
#pragma unroll
    for (unsigned k = 0; k < L::kCount; ++k) {
      if (!is_there(k)) continue;
      own[k] = static_cast<const Numbers*>(what.x)[begin + L::at(k)];
      if constexpr (kAdds) {
        const Numbers more = static_cast<const Numbers*>(what.branch)[begin + L::at(k)];
#pragma unroll
        for (unsigned i = 0; i < kLength; ++i) set(own[k].each[i], as_float(own[k].each[i]) + as_float(more.each[i]));
        static_cast<Numbers*>(what.sum)[begin + L::at(k)] = own[k];
      }
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) sum += as_float(own[k].each[i]);
    }
    const float mean = sum_of_group<kGroup>(sum, places) / columns;
    float squares = 0;
#pragma unroll
    for (unsigned k = 0; k < L::kCount; ++k) {
      if (!is_there(k)) continue;
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) {
        const float from_mean = as_float(own[k].each[i]) - mean;
        squares += from_mean * from_mean;
      }
    }
    const float scale = rsqrtf(sum_of_group<kGroup>(squares, places) / columns + what.epsilon);
#pragma unroll
    for (unsigned k = 0; k < L::kCount; ++k) {
      if (!is_there(k)) continue;
      const Numbers weight = static_cast<const Numbers*>(what.weight)[L::at(k)];
      const Numbers bias = static_cast<const Numbers*>(what.bias)[L::at(k)];
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) {
        const float in_unit = (as_float(own[k].each[i]) - mean) * scale;
        set(own[k].each[i], in_unit * as_float(weight.each[i]) + as_float(bias.each[i]));
      }
      static_cast<Numbers*>(what.normalized)[begin + L::at(k)] = own[k];
    }
    if (threadIdx.x % kGroup == 0 && row < what.rows) {
      what.means[row] = mean;
      what.scales[row] = scale;
    }
  }
}

/// Adds what each group of the block has for a column, group after group, and writes the sums. `places` has room for a
/// number of each column.
template <class L>
__device__ void write_part(const float (&own)[L::kCount][L::Numbers::kLength], float* places, float* to,
                           std::int64_t count) {
  constexpr unsigned kLength = L::Numbers::kLength;
  for (unsigned group = 0; group < L::kGroups; ++group) {
    if (group == L::group()) {
#pragma unroll
      for (unsigned k = 0; k < L::kCount; ++k) {
        if (L::at(k) >= count) continue;
#pragma unroll
        for (unsigned i = 0; i < kLength; ++i) {
          const std::int64_t column = L::at(k) * kLength + i;
          const float sum = group == 0 ? own[k][i] : places[column] + own[k][i];
          (group + 1 == L::kGroups ? to : places)[column] = sum;
        }
      }
    }
    __syncthreads();
  }
}

template <class T, unsigned kGroup, unsigned kValues>
__global__ void __launch_bounds__(threads_of_block(kGroup)) norm_gradients_kernel(NormGradients what) {
  using L = Layout<T, kGroup, kValues>;
  using Numbers = typename L::Numbers;
  constexpr unsigned kLength = Numbers::kLength;
  __shared__ float places[L::kThreadsOfBlock / kWarp];
  __shared__ float sums[L::kGroups == 1 ? 1 : kGroup * kValues];
  const std::int64_t count = what.columns / kLength;
  const auto columns = static_cast<float>(what.columns);
  float of_weight[L::kCount][kLength] = {};
  float of_bias[L::kCount][kLength] = {};

  for (std::int64_t first = std::int64_t{blockIdx.x} * L::kGroups; first < what.rows;
       first += std::int64_t{gridDim.x} * L::kGroups) {
    const std::int64_t row = first + L::group();
    const std::int64_t begin = row * count;
    const auto is_there = [&](unsigned k) { return row < what.rows && L::at(k) < count; };
    const float mean = row < what.rows ? what.means[row] : 0;
    const float scale = row < what.rows ? what.scales[row] : 0;
    Numbers own[L::kCount] = {};
    Numbers gradient[L::kCount] = {};
    float sum = 0;      // of the gradients of the number in units of the standard deviation
    float product = 0;  // of these gradients and these numbers, summed
#pragma unroll
    for (unsigned k = 0; k < L::kCount; ++k) {
      if (!is_there(k)) continue;
      own[k] = static_cast<const Numbers*>(what.sum)[begin + L::at(k)];
      gradient[k] = static_cast<const Numbers*>(what.of_normalized)[begin + L::at(k)];
      const Numbers weight = static_cast<const Numbers*>(what.weight)[L::at(k)];
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) {
        const float in_unit = (as_float(own[k].each[i]) - mean) * scale;
        const float of_normalized = as_float(gradient[k].each[i]);
        of_weight[k][i] += of_normalized * in_unit;
        of_bias[k][i] += of_normalized;
        const float of_unit = of_normalized * as_float(weight.each[i]);
        sum += of_unit;
        product += of_unit * in_unit;
      }
    }
    const float mean_of_sum = sum_of_group<kGroup>(sum, places) / columns;
    const float mean_of_product = sum_of_group<kGroup>(product, places) / columns;
#pragma unroll
    for (unsigned k = 0; k < L::kCount; ++k) {
      if (!is_there(k)) continue;
      const Numbers weight = static_cast<const Numbers*>(what.weight)[L::at(k)];
      Numbers besides{};
      if (what.of_sum != nullptr) besides = static_cast<const Numbers*>(what.of_sum)[begin + L::at(k)];
#pragma unroll
      for (unsigned i = 0; i < kLength; ++i) {
        const float in_unit = (as_float(own[k].each[i]) - mean) * scale;
        const float of_unit = as_float(gradient[k].each[i]) * as_float(weight.each[i]);
        const float own_part = (of_unit - mean_of_sum - in_unit * mean_of_product) * scale;
        set(own[k].each[i], what.of_sum == nullptr ? own_part : own_part + as_float(besides.each[i]));
      }
      static_cast<Numbers*>(what.of_x)[begin + L::at(k)] = own[k];
    }
  }
  float* const part = what.parts + std::int64_t{blockIdx.x} * 2 * what.columns;
  write_part<L>(of_weight, sums, part, count);
  write_part<L>(of_bias, sums, part + what.columns, count);
}

unsigned group_for(std::int64_t columns) {
  for (unsigned group = kWarp; group < kGroupMax; group *= 4) {
    if (columns <= std::int64_t{group} * kValuesMax) return group;
  }
  return kGroupMax;
}

/// Enough blocks for the rows, but no more than so many for each processor of the GPU.
unsigned blocks_for(std::int64_t rows, std::int64_t columns, unsigned per_processor) {
  const unsigned group = group_for(columns);
  const std::int64_t rows_of_block = threads_of_block(group) / group;
  return static_cast<unsigned>(std::clamp<std::int64_t>((rows + rows_of_block - 1) / rows_of_block, 1,
                                                        std::int64_t{per_processor} * processors_of_device()));
}

/// Calls f<group, values>() with the numbers that suit so many columns.
template <class F>
cudaError_t with_layout(std::int64_t columns, const F& f) {
  switch (group_for(columns)) {
    case kWarp:
      switch ((columns + kWarp * 8 - 1) / (kWarp * 8)) {
        case 1: return f.template operator()<kWarp, 8>();
        case 2: return f.template operator()<kWarp, 16>();
        case 3: return f.template operator()<kWarp, 24>();
        default: return f.template operator()<kWarp, kValuesMax>();
      }
    case kWarp * 4: return f.template operator()<kWarp * 4, kValuesMax>();
    default: return f.template operator()<kGroupMax, kValuesMax>();
  }
}

}  // namespace

bool normalizes(NumberType type, std::int64_t columns) {
  const unsigned length = type == NumberType::kFloat ? Several<float>::kLength : Several<__half>::kLength;
  return columns > 0 && columns % length == 0 && columns <= std::int64_t{kGroupMax} * kValuesMax;
}

cudaError_t normalize_rows(NumberType type, const NormalizedRows& what, cudaStream_t stream) {
  if (what.rows == 0) return cudaSuccess;
  return with_type(type, [&]<class T>(T) {
    return with_layout(what.columns, [&]<unsigned kGroup, unsigned kValues>() {
      const unsigned blocks = blocks_for(what.rows, what.columns, kNormBlocks);
      const auto kernel = what.branch == nullptr ? normalize_kernel<T, kGroup, kValues, false>
                                                 : normalize_kernel<T, kGroup, kValues, true>;
      return launch(kernel, blocks, threads_of_block(kGroup), stream, what);
    });
  });
}

std::int64_t norm_part_count(std::int64_t rows, std::int64_t columns) {
  return blocks_for(rows, columns, kNormSumBlocks);
}

cudaError_t compute_norm_gradients(NumberType type, const NormGradients& what, cudaStream_t stream) {
  return with_type(type, [&]<class T>(T) {
    const cudaError_t begun = with_layout(what.columns, [&]<unsigned kGroup, unsigned kValues>() {
      return launch(norm_gradients_kernel<T, kGroup, kValues>, static_cast<unsigned>(what.part_count),
                    threads_of_block(kGroup), stream, what);
    });
    if (begun != cudaSuccess) return begun;
    return sum_parts<T>({what.parts, what.part_count, what.columns, {what.of_weight, what.of_bias}}, stream);
  });
}

}  // namespace pharos::ml
