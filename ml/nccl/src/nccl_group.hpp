#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <utility>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// NCCL's communicator of all ranks, and the stream on which its operations run. Owned by NcclBackend, on whose GPU the
/// calling thread is. NCCL may still be at what it was asked for when a function returns: see is_settled(). The
/// destructor aborts what has not ended. One thread at a time.
class NcclGroup {
 public:
  NcclGroup(Communicator host, int device) : host_{std::move(host)}, device_{device} {}
  NcclGroup(NcclGroup&&) = delete;
  ~NcclGroup();

  /// Begins to connect the ranks. All of them call it together; fails as the host's operations and NCCL do.
  Result<void> begin();
  /// Gives an operation to the stream. Not for messages, barriers and allocations.
  Result<void> give(const Operation& operation, const detail::Places& places);
  /// Returns false as long as NCCL is at what it was asked for. Fails with NCCL's failure, or with that of the host if
  /// there is one.
  Result<bool> is_settled();
  /// Begins the orderly end, and ends when that has settled.
  Result<void> begin_end();
  void end();
  /// Ends all operations of this rank, done or not. There are no more.
  void abort();

  bool has_begun() const { return comm_ != nullptr; }
  cudaStream_t stream() const { return stream_; }

 private:
  Result<void> name_machine();
  std::uint32_t rank() const { return host_.rank(); }
  std::uint32_t ranks() const { return host_.size(); }

  Communicator host_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace pharos::ml
