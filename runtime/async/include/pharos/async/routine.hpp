#pragma once

#include <atomic>
#include <coroutine>

#include <pharos/async/executor.hpp>
#include <pharos/base/export.hpp>

namespace pharos::async::detail {

class Wait;

/// One spawned coroutine with all those that it awaits: at any moment one of them runs, or the innermost waits.
/// Resumes them in a loop, not from within each other: GCC 12 makes symmetric transfer a tail call only with
/// optimization and without sanitizers, and elsewhere a chain of 100 000 awaits would end at the end of the stack.
///
/// Owned by its AsyncGroup. Threads: run() and all that it calls belong to the executor; cancelled() to any thread.
class PHAROS_API Routine {
 public:
  /// `cancelled` is the group's, and outlives the routine.
  Routine(Executor& executor, const std::atomic<bool>& cancelled) : executor_{executor}, cancelled_{cancelled} {}
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  virtual ~Routine() = default;

  Executor& executor() const { return executor_; }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  /// The coroutine that runs once the running one has suspended; none when the outermost has ended.
  void transfer_to(std::coroutine_handle<> next) { next_ = next; }

  /// `waiting` goes on at the next run(). Until then cancel_wait() ends `wait`, if there is one.
  void park(std::coroutine_handle<> waiting, Wait* wait);

  /// Runs until all wait again, or have ended. Destroys the routine in the latter case.
  void run();

  /// Ends the wait that it is in now, if that can be cancelled.
  void cancel_wait();

 private:
  /// The outermost coroutine has ended. May destroy this.
  virtual void ended() = 0;

  Executor& executor_;
  const std::atomic<bool>& cancelled_;
  std::coroutine_handle<> next_;
  std::coroutine_handle<> parked_;
  Wait* wait_ = nullptr;
};

}  // namespace pharos::async::detail
