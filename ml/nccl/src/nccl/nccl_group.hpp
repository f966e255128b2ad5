#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <utility>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>

#include "gpu_group.hpp"
#include "gpu_memory.hpp"

namespace pharos::ml {

/// NCCL's communicator of all ranks, and the stream on which its operations run. Owned by GpuBackend.
class NcclGroup final : public GpuGroup {
 public:
  NcclGroup(Communicator host, int device) : host_{std::move(host)}, device_{device}, memory_{device} {}
  ~NcclGroup() override;

  /// Begins to connect the ranks. All of them call it together; fails as the host's operations and NCCL do.
  Result<void> begin();

  Result<void> give(const Operation& operation, const detail::Places& places) override;
  cudaStream_t stream() const override { return stream_; }
  Result<bool> is_settled() override;
  Result<std::byte*> allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void free(std::byte* memory) override { memory_.free(memory); }
  Result<void> begin_end() override;
  void end() override;
  void abort() override;

 private:
  Result<void> name_machine();
  std::uint32_t rank() const { return host_.rank(); }
  std::uint32_t ranks() const { return host_.size(); }

  Communicator host_;
  const int device_;
  GpuMemory memory_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace pharos::ml
