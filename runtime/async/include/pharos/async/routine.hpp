#pragma once

#include <atomic>
#include <coroutine>

#include <pharos/async/executor.hpp>
#include <pharos/base/export.hpp>

namespace pharos::async::detail {

class Wait;

/// One spawned coroutine together with the chain of coroutines that it awaits. At any moment one of them runs, or the
/// innermost waits. The routine resumes them in a loop, not from within each other: GCC 12 makes symmetric transfer a
/// tail call only with optimization and without sanitizers, and otherwise a chain of 100 000 awaits would overflow the
/// stack.
///
/// Owned by its AsyncGroup, or by a call of a worker. Threads: all members belong to the executor, except cancelled(),
/// which any thread may call. End: the owner keeps it until ended(), because a waiting coroutine and its Wait refer to
/// it.
class PHAROS_API Routine {
 public:
  /// `cancelled` belongs to the group and must outlive the routine.
  Routine(Executor& executor, const std::atomic<bool>& cancelled) : executor_{executor}, cancelled_{cancelled} {}
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  virtual ~Routine() = default;

  Executor& executor() const { return executor_; }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  /// Sets the coroutine to resume after the running coroutine has suspended. Null at the end of the outermost one.
  void transfer_to(std::coroutine_handle<> next) { next_ = next; }

  /// Stores `waiting` as the coroutine that the next run() resumes. Until then cancel_wait() can end `wait`, unless
  /// `wait` is null.
  void park(std::coroutine_handle<> waiting, Wait* wait);

  /// Runs until the innermost coroutine waits again, or until the outermost has ended. May destroy the routine at the
  /// outermost's end.
  void run();

  /// Ends the present wait with kCancelled, if there is one and it can be cancelled.
  void cancel_wait();

 private:
  /// Called when the outermost coroutine has ended. May destroy this object.
  virtual void ended() = 0;

  Executor& executor_;
  const std::atomic<bool>& cancelled_;
  std::coroutine_handle<> next_;
  std::coroutine_handle<> parked_;
  Wait* wait_ = nullptr;
};

}  // namespace pharos::async::detail
