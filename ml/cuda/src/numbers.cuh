#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "number_type.hpp"

/// Numbers of the types that kernels take, for the files that are compiled for GPUs. Kernels compute with floats.
namespace pharos::ml {
namespace {

constexpr unsigned kBytesAtOnce = 16;  // that a thread reads or writes
constexpr unsigned kWarp = 32;

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

template <class T, unsigned kCount = kBytesAtOnce / sizeof(T)>
struct alignas(kCount * sizeof(T)) Several {
  static constexpr unsigned kLength = kCount;
  T each[kCount];
};

/// Calls `f` with a number of the type.
template <class F>
cudaError_t with_type(NumberType type, const F& f) {
  switch (type) {
    case NumberType::kFloat: return f(float{});
    case NumberType::kHalf: return f(__half{});
    case NumberType::kBFloat16: return f(__nv_bfloat16{});
  }
  return cudaErrorInvalidValue;
}

/// How many multiprocessors the current device has.
inline std::int64_t processors_of_device() {
  int device = 0;
  int processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return processors;
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, cudaStream_t stream,
                   const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace
}  // namespace pharos::ml
