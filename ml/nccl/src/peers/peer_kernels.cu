#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "peers/peer_kernels.hpp"

namespace pharos::ml {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kBlocksPerProcessor = 2;
constexpr std::size_t kVector = 16;  // bytes that a thread reads at once

// The type in which elements of type T are summed, and the conversions to this type and back.
template <class T>
struct Wide {
  using Type = T;
  static __device__ T load(T from) { return from; }
  static __device__ T store(T from) { return from; }
};
template <>
struct Wide<__half> {
  using Type = float;
  static __device__ float load(__half from) { return __half2float(from); }
  static __device__ __half store(float from) { return __float2half_rn(from); }
};
template <>
struct Wide<__nv_bfloat16> {
  using Type = float;
  static __device__ float load(__nv_bfloat16 from) { return __bfloat162float(from); }
  static __device__ __nv_bfloat16 store(float from) { return __float2bfloat16_rn(from); }
};

struct Sum {
  template <class W>
  static __device__ W join(W a, W b) {
    if constexpr (std::is_integral_v<W>) {  // a sum may wrap around
      using U = std::make_unsigned_t<W>;
      return static_cast<W>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
// The result is NaN if one of the two values is NaN.
struct Max {
  template <class W>
  static __device__ W join(W a, W b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class W>
  static __device__ W join(W a, W b) {
    return a < b || a != a ? a : b;
  }
};

template <class T>
struct alignas(kVector) Vector {
  static constexpr unsigned kLength = kVector / sizeof(T);
  T elements[kLength];
};

/// What the block knows of a round: where the data of each rank begins.
struct Data {
  const std::byte* at[kPeersMax];
  std::uint64_t stride[kPeersMax];
};

/// Reads the ranks' lines. Returns false, for all threads of the block, if nothing is to be done.
__device__ bool read_lines(const PeerRound& round, Data& data) {
  bool goes_on = *static_cast<const volatile std::uint32_t*>(round.ended) == 0;
  if (threadIdx.x < round.ranks) {
    const volatile PeerLine& line = round.lines[round.rank * round.ranks + threadIdx.x];
    goes_on = goes_on && line.what == round.what && line.elements == round.elements;
    data.at[threadIdx.x] = reinterpret_cast<const std::byte*>(line.at);
    data.stride[threadIdx.x] = line.stride;
  }
  return __syncthreads_and(goes_on) != 0;
}

__device__ bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kVector == 0;
}

/// One line for each thread.
__global__ void tell_here_kernel(PeerRound round, PeerPlace place) {
  if (*static_cast<const volatile std::uint32_t*>(round.ended) != 0) return;
  volatile PeerLine& line = round.lines[threadIdx.x * round.ranks + round.rank];
  line.at = place.at[threadIdx.x];
  line.stride = place.stride;
  line.what = round.what;
  line.elements = round.elements;
  line.came = round.number;
  __threadfence_system();
  line.here = round.number;
}

__global__ void tell_done_kernel(PeerRound round) {
  if (*static_cast<const volatile std::uint32_t*>(round.ended) != 0) return;
  volatile PeerLine& line = round.lines[threadIdx.x * round.ranks + round.rank];
  __threadfence_system();
  line.did = round.number;
  line.done = round.number;
}

/// kRanks is the number of ranks where that is known when this is compiled, and else 0.
template <class T, class Op, unsigned kRanks>
__global__ void reduce_kernel(PeerRound round, PeerReduction what) {
  using W = typename Wide<T>::Type;
  using V = Vector<T>;
  __shared__ Data data;
  if (!read_lines(round, data)) return;
  const unsigned ranks = kRanks == 0 ? round.ranks : kRanks;
  if (threadIdx.x < ranks) data.at[threadIdx.x] += what.piece * data.stride[threadIdx.x] + what.offset;
  const bool own_is_aligned = threadIdx.x >= ranks || is_aligned(data.at[threadIdx.x]);
  const bool are_aligned = __syncthreads_and(own_is_aligned && is_aligned(what.to)) != 0;

  const bool is_mean = what.reduction == Reduction::kMean;
  const auto divisor = static_cast<W>(ranks);
  const auto finish = [&](W sum) { return Wide<T>::store(is_mean ? static_cast<W>(sum / divisor) : sum); };
  const auto from = [&](unsigned rank) { return reinterpret_cast<const T*>(data.at[rank]); };
  const auto to = [&](unsigned rank) { return reinterpret_cast<T*>(const_cast<std::byte*>(data.at[rank])); };
  auto* const to_one = reinterpret_cast<T*>(what.to);

  const std::uint64_t vectors = are_aligned ? what.elements / V::kLength : 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::uint64_t i = first; i < vectors; i += step) {
    W sums[V::kLength];
    const V own = reinterpret_cast<const V*>(from(0))[i];
#pragma unroll
    for (unsigned k = 0; k < V::kLength; ++k) sums[k] = Wide<T>::load(own.elements[k]);
#pragma unroll
    for (unsigned rank = 1; rank < ranks; ++rank) {
      const V next = reinterpret_cast<const V*>(from(rank))[i];
#pragma unroll
      for (unsigned k = 0; k < V::kLength; ++k) sums[k] = Op::join(sums[k], Wide<T>::load(next.elements[k]));
    }
    V out;
#pragma unroll
    for (unsigned k = 0; k < V::kLength; ++k) out.elements[k] = finish(sums[k]);
    if (to_one != nullptr) {
      reinterpret_cast<V*>(to_one)[i] = out;
      continue;
    }
#pragma unroll
    for (unsigned rank = 0; rank < ranks; ++rank) reinterpret_cast<V*>(to(rank))[i] = out;
  }
  for (std::uint64_t i = vectors * V::kLength + first; i < what.elements; i += step) {
    W sum = Wide<T>::load(from(0)[i]);
    for (unsigned rank = 1; rank < ranks; ++rank) sum = Op::join(sum, Wide<T>::load(from(rank)[i]));
    const T out = finish(sum);
    if (to_one != nullptr) {
      to_one[i] = out;
      continue;
    }
    for (unsigned rank = 0; rank < ranks; ++rank) to(rank)[i] = out;
  }
}

__global__ void copy_kernel(PeerRound round, PeerCopy what) {
  __shared__ Data data;
  if (!read_lines(round, data)) return;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (unsigned rank = what.first; rank < what.last; ++rank) {
    const std::byte* const from = data.at[rank] + what.piece * data.stride[rank];
    std::byte* const to = what.to + (rank - what.first) * what.to_stride;
    if (from == to) continue;
    const std::uint64_t vectors = is_aligned(from) && is_aligned(to) ? what.bytes / kVector : 0;
    for (std::uint64_t i = first; i < vectors; i += step) {
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    for (std::uint64_t i = vectors * kVector + first; i < what.bytes; i += step) to[i] = from[i];
  }
}

template <class... Arguments>
cudaError_t launch(void (*kernel)(Arguments...), unsigned blocks, unsigned threads, cudaStream_t stream,
                   const std::type_identity_t<Arguments>&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Enough blocks for so many threads, but no more than the GPU runs at once.
unsigned blocks_for(std::uint64_t threads) {
  int device = 0;
  int processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const std::uint64_t needed = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(needed, 1, std::uint64_t{kBlocksPerProcessor} * static_cast<unsigned>(processors)));
}

template <class T, class Op, unsigned kRanks>
cudaError_t reduce(const PeerRound& round, const PeerReduction& reduction, cudaStream_t stream) {
  const unsigned blocks = blocks_for(reduction.elements / Vector<T>::kLength);
  return launch(reduce_kernel<T, Op, kRanks>, blocks, kThreads, stream, round, reduction);
}

template <class T>
cudaError_t reduce_as(const PeerRound& round, const PeerReduction& reduction, cudaStream_t stream) {
  switch (reduction.reduction) {
    case Reduction::kMax: return reduce<T, Max, 0>(round, reduction, stream);
    case Reduction::kMin: return reduce<T, Min, 0>(round, reduction, stream);
    case Reduction::kSum:
    case Reduction::kMean: break;
  }
  if constexpr (!std::is_integral_v<T>) {  // integers are few: counts, marks
    switch (round.ranks) {
      case 2: return reduce<T, Sum, 2>(round, reduction, stream);
      case 4: return reduce<T, Sum, 4>(round, reduction, stream);
      case 8: return reduce<T, Sum, 8>(round, reduction, stream);
      default: break;
    }
  }
  return reduce<T, Sum, 0>(round, reduction, stream);
}

}  // namespace

cudaError_t tell_here(const PeerRound& round, const PeerPlace& place, cudaStream_t stream) {
  return launch(tell_here_kernel, 1, round.ranks, stream, round, place);
}

cudaError_t tell_done(const PeerRound& round, cudaStream_t stream) {
  return launch(tell_done_kernel, 1, round.ranks, stream, round);
}

cudaError_t reduce_peers(const PeerRound& round, const PeerReduction& reduction, cudaStream_t stream) {
  switch (reduction.dtype) {
    case DType::kU8: return reduce_as<std::uint8_t>(round, reduction, stream);
    case DType::kI8: return reduce_as<std::int8_t>(round, reduction, stream);
    case DType::kI32: return reduce_as<std::int32_t>(round, reduction, stream);
    case DType::kI64: return reduce_as<std::int64_t>(round, reduction, stream);
    case DType::kF16: return reduce_as<__half>(round, reduction, stream);
    case DType::kBF16: return reduce_as<__nv_bfloat16>(round, reduction, stream);
    case DType::kF32: return reduce_as<float>(round, reduction, stream);
    case DType::kF64: return reduce_as<double>(round, reduction, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t copy_peers(const PeerRound& round, const PeerCopy& copy, cudaStream_t stream) {
  return launch(copy_kernel, blocks_for(copy.bytes / kVector), kThreads, stream, round, copy);
}

}  // namespace pharos::ml
