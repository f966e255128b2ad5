#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <pharos/async/deadline.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>

#include "gpu_group.hpp"
#include "pinned_buffers.hpp"

namespace pharos::ml {

/// Ranks that have a GPU each. Owned by Core. One thread at a time; the thread's current GPU is the same before and
/// after each function. The destructor ends the group of GPUs, and aborts it after a failure or if that takes longer
/// than 0.1 seconds; it frees all memory that was allocated.
///
/// 1. An operation goes to the GPU at once, on a stream of this backend, after all work that the stream of work
///    (detail::stream_of_work()) had when the operation was begun. Meanwhile the ranks tell each other on the host what
///    they have begun. An operation has ended when the GPU has done it and all ranks have begun the same one.
/// 2. Operations on the GPU are watched: when a rank has died, when ranks have begun different operations, or when an
///    operation takes too long, the group is aborted. Each failure also aborts the communicator of the host, so that
///    all ranks fail. The errors of CUDA and NCCL are kUnavailable, or kExhausted for too little memory.
/// 3. While the owner is elsewhere, perhaps in a function of libtorch that waits for the GPU, a thread of the backend
///    watches the operations. It aborts the group, so that the owner comes back, and the owner's next call tells the
///    host. The mutex keeps the two apart.
/// 4. A thread that waits for the GPU sleeps until the GPU calls back. Messages go through the host's memory: they are
///    sent, or copied to the GPU, inside calls of the owner.
class GpuBackend final : public detail::Backend {
 public:
  /// All ranks call it together; it waits for them. kFailedPrecondition on all ranks if one of them has no such GPU;
  /// `host` stays usable then, but not after another failure.
  static Result<std::unique_ptr<GpuBackend>> make(Communicator host, int device, const CommunicatorOptions& options);
  ~GpuBackend() override;

  std::uint32_t rank() const override { return host_.rank(); }
  std::uint32_t ranks() const override { return host_.size(); }
  bool shares_memory() const override { return false; }
  bool is_on_gpu() const override { return true; }
  std::uint64_t bytes_sent() const override { return host_.bytes_sent(); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override;
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<void> join(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override;
  void fail(const Error& why) override;
  Result<void> check() override;
  std::optional<Error> failure() override;

 private:
  class Running;
  GpuBackend(const Communicator& host, int device, Duration time) : host_{host}, device_{device}, time_{time} {}

  Result<void> start(GpuPath path);
  Result<void> settle(Deadline deadline);
  Result<void> host_check();
  Result<void> begin_running(Running& running);
  Result<void> begin_message(Running& running);
  Result<void> send_message(Running& running);
  Result<void> check_agreement(const Running& running) const;
  Result<void> take_message(Running& running);
  Result<void> launch(Running& running);
  std::shared_ptr<Running> begin_one(const Operation& operation, const detail::Places& places);
  Result<void> finish_one(Running& running, Duration time);
  Result<void> advance_all();
  Result<void> hear_ranks();
  Result<void> advance_message(Running& running);
  Result<void> look_at_event(Running& running);
  TimePoint deadline_of(Running& running, Duration time);
  Result<void> wait_for_more(Running& running, TimePoint deadline);
  Result<void> wait_for_ranks(Running& running);
  Result<void> wait_for_gpu(Running& running, TimePoint until);
  void watch();
  std::optional<Error> seen_from_aside();
  void abort_group();
  Error give_up(const Error& why);

  Communicator host_;
  const int device_;
  const Duration time_;  // the longest time for what the group does on the host
  std::unique_ptr<GpuGroup> group_;
  cudaStream_t messages_ = nullptr;  // for copies of messages, so that they wait for no other operation
  cudaStream_t calls_ = nullptr;     // for calls of the host, so that no operation waits for them
  PinnedBuffers buffers_;
  std::uint64_t begun_ = 0;                       // operations of the owner; Core counts them in the same way
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  TimePoint next_look_{};                         // when a wait next checks that all ranks are alive
  std::optional<Error> failed_;
  bool host_knows_ = false;  // of the failure

  std::mutex mutex_;  // for all of the above, once the watcher runs
  std::condition_variable more_;
  bool ends_ = false;
  std::thread watcher_;
};

}  // namespace pharos::ml
