#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Ranks that have a GPU each. Owned by Core. One thread at a time; the thread's current GPU is the same before and
/// after each function. The destructor ends NCCL, and aborts it after a failure or if that takes longer than 0.1
/// seconds; it frees all memory that was allocated.
///
/// 1. An operation goes to the GPU once all ranks have told each other, on the host, that they have begun the same one.
///    It runs on a stream of this backend, after all work that CUDA's default stream had when the operation was begun.
/// 2. Operations on the GPU are watched: when a rank has died, or an operation takes too long, NCCL is aborted. Each
/// failure also aborts the communicator of the host, so that all ranks fail. The errors of CUDA and NCCL are
/// kUnavailable, or kExhausted for too little memory.
class NcclBackend final : public detail::Backend {
 public:
  /// All ranks call it together; it waits for them, and at most `time` for NCCL. kFailedPrecondition on all ranks if
  /// one of them has no such GPU; `host` stays usable then, but not after another failure.
  static Result<std::unique_ptr<NcclBackend>> make(Communicator host, int device, Duration time);
  ~NcclBackend() override;

  std::uint32_t rank() const override { return host_.rank(); }
  std::uint32_t ranks() const override { return host_.size(); }
  bool shares_memory() const override { return false; }
  bool is_on_gpu() const override { return true; }
  std::uint64_t bytes_sent() const override { return host_.bytes_sent(); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override;
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override;
  void fail(const Error& why) override;
  Result<void> check() override;

 private:
  class Running;
  struct FreeOnGpu {
    void operator()(std::byte* memory) const { ::cudaFree(memory); }
  };
  using Memory = std::unique_ptr<std::byte, FreeOnGpu>;
  struct FreeOnHost {
    void operator()(std::byte* memory) const { ::cudaFreeHost(memory); }
  };
  /// Pinned memory of the host: a GPU copies from it and to it while the host continues.
  using HostMemory = std::unique_ptr<std::byte, FreeOnHost>;
  struct HostBuffer {
    HostMemory memory{};
    std::size_t bytes = 0;
  };

  NcclBackend(Communicator host, int device, Duration time) : host_{std::move(host)}, device_{device}, time_{time} {}

  Result<void> start();
  Result<void> name_machine();
  Result<void> settle(Deadline deadline);
  Result<void> host_check();
  Result<void> mark_begin(Running& running);
  Result<void> begin_agreement(Running& running);
  Result<void> begin_message(Running& running);
  Result<HostBuffer> take_host_buffer(std::size_t bytes);
  Result<void> send_message(Running& running);
  Result<void> check_agreement(const Running& running) const;
  Result<void> launch(Running& running);
  Result<void> call(const Operation& operation, const detail::Places& places);
  Result<void> advance_all();
  Result<void> advance_one(Running& running);
  Error give_up(const Error& why);

  Communicator host_;
  const int device_;
  const Duration time_;  // the longest time for what NCCL does on the host
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t messages_ = nullptr;  // for copies of messages, so that they wait for no other operation
  std::vector<HostBuffer> host_buffers_;
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  std::map<std::byte*, Memory> memory_;
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
