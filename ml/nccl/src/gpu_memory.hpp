#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include <pharos/base/result.hpp>

#include "cuda_calls.hpp"

namespace pharos::ml {

/// Memory of a GPU. Its owner frees it before the device is given up; the destructor frees the rest. One thread at a
/// time.
class GpuMemory {
 public:
  explicit GpuMemory(int device) : device_{device} {}

  Result<std::byte*> allocate(std::size_t bytes) {
    void* memory = nullptr;
    PHAROS_TRY_VOID(done(::cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)),
                         "taking " + std::to_string(bytes) + " bytes of GPU " + std::to_string(device_)));
    auto* const begin = static_cast<std::byte*>(memory);
    all_.emplace(begin, begin);
    return begin;
  }
  /// Ignores memory that it does not know.
  void free(std::byte* memory) { all_.erase(memory); }

 private:
  struct FreeOnGpu {
    void operator()(std::byte* memory) const { ::cudaFree(memory); }
  };

  const int device_;
  std::map<std::byte*, std::unique_ptr<std::byte, FreeOnGpu>> all_;
};

}  // namespace pharos::ml
