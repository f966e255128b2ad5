#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// Pinned memory of the host: a GPU copies from it and to it while the host continues. The owner frees it when no copy
/// uses it any more.
struct PinnedBuffer {
  struct Free {
    void operator()(std::byte* memory) const { ::cudaFreeHost(memory); }
  };
  std::unique_ptr<std::byte, Free> memory{};
  std::size_t bytes = 0;
};

/// The buffers of messages. They are kept and used again: to free one would wait for what runs on the GPU, which may
/// wait for a rank that has died. Owned by NcclBackend. One thread at a time.
class PinnedBuffers {
 public:
  /// A buffer of at least so many bytes. kExhausted if there is too little memory.
  Result<PinnedBuffer> take(std::size_t bytes);
  void put_back(PinnedBuffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<PinnedBuffer> free_;
};

}  // namespace pharos::ml
