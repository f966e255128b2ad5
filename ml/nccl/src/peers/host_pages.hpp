#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Memory of the host that all ranks and their GPUs share, filled with zeros. The owner destroys it when its
/// GPU does not use it any more.
class HostPages {
 public:
  /// All ranks call it together, with the same size. Fails if this rank's GPU cannot use such memory.
  static Result<HostPages> make(Communicator& host, std::size_t bytes);
  HostPages(HostPages&& other) noexcept
      : memory_{std::move(other.memory_)}, host_{std::exchange(other.host_, nullptr)}, gpu_{other.gpu_} {}
  ~HostPages() {
    if (host_ != nullptr) ::cudaHostUnregister(host_);
  }

  std::byte* for_host() const { return host_; }
  std::byte* for_gpu() const { return gpu_; }

 private:
  explicit HostPages(Buffer<std::byte> memory) : memory_{std::move(memory)} {}

  Buffer<std::byte> memory_;
  std::byte* host_ = nullptr;
  std::byte* gpu_ = nullptr;
};

}  // namespace pharos::ml
