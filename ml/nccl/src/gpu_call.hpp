#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>

#include "cuda_calls.hpp"

namespace pharos::ml {

/// A call that a GPU makes when it has done its work so far. The thread that waits and the GPU share it: the GPU's
/// driver calls on a thread of its own, perhaps when nobody waits any more.
class GpuCall {
 public:
  /// Asks for the call after all work that the stream has.
  static Result<std::shared_ptr<GpuCall>> after(cudaStream_t stream) {
    auto call = std::make_shared<GpuCall>();
    auto own = std::make_unique<std::shared_ptr<GpuCall>>(call);
    PHAROS_TRY_VOID(done(::cudaLaunchHostFunc(stream, &make, own.get()), "asking the GPU for a call"));
    static_cast<void>(own.release());  // make() destroys it
    return call;
  }
  /// Returns whether the GPU has called by then.
  bool wait_until(TimePoint until) {
    std::unique_lock lock{mutex_};
    return made_.wait_until(lock, until, [this] { return is_made_; });
  }

 private:
  static void CUDART_CB make(void* data) {
    const std::unique_ptr<std::shared_ptr<GpuCall>> own{static_cast<std::shared_ptr<GpuCall>*>(data)};
    GpuCall& call = **own;
    {
      const std::lock_guard lock{call.mutex_};
      call.is_made_ = true;
    }
    call.made_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable made_;
  bool is_made_ = false;
};

}  // namespace pharos::ml
