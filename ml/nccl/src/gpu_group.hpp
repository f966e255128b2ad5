#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>

namespace pharos::ml {

/// How the GPUs of all ranks do an operation together. Owned by GpuBackend, on whose GPU the calling thread is. The
/// group may still be at what it was asked for when a function returns: see is_settled(). The destructor aborts what
/// has not ended, and frees all memory that was allocated. One thread at a time.
class GpuGroup {
 public:
  GpuGroup() = default;
  GpuGroup(GpuGroup&&) = delete;
  virtual ~GpuGroup() = default;

  /// Gives an operation to the stream. Not for messages, barriers and allocations.
  virtual Result<void> give(const Operation& operation, const detail::Places& places) = 0;
  /// The stream on which operations run, one after the other.
  virtual cudaStream_t stream() const = 0;
  /// Returns false as long as the group is at what it was asked for. Fails with the failure of the GPU, or with that of
  /// the host if there is one.
  virtual Result<bool> is_settled() = 0;
  /// Memory of this rank's GPU. All ranks call it together; if it fails on one of them, the caller makes the host's
  /// communicator fail, and it fails on the others. free() ignores memory that it does not know.
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;
  /// Begins the orderly end, and ends when that has settled.
  virtual Result<void> begin_end() = 0;
  virtual void end() = 0;
  /// Ends all operations of this rank, done or not; none of them uses its memory any more. There are no more.
  virtual void abort() = 0;
};

}  // namespace pharos::ml
