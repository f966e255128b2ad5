#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <string_view>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/routine.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>

/// How every wait of this folder works:
///
/// 1. The coroutine makes a Wait and stores it where the awaited event finds it.
/// 2. `co_await suspend(wait, deadline)` parks the coroutine and sets a timer for the deadline.
/// 3. The event (on any thread), the timer and cancellation each try to claim() the Wait. The winner stores its result
///    and calls resume(), which posts to the coroutine's executor.
///
/// Cancellation ends only waits that are parked. So a coroutine asks Routine::cancelled() before step 1, and makes no
/// Wait if its group is cancelled. Only a join does not ask.
///
/// The Wait may be claimed between steps 1 and 2. That is safe: the resumption is posted to the executor, which runs it
/// only after the coroutine has suspended. All holders share the Wait by shared_ptr, so that a late event or timer
/// finds a Wait that has ended, not freed memory.
namespace pharos::async::detail {

enum class WaitEnd : std::uint8_t { kPending, kReady, kDeadline, kCancelled };

/// One wait of a coroutine, which exactly one of event, deadline and cancellation ends. A Wait that nothing claims
/// leaves its coroutine suspended for ever. The Routine outlives the wait, but not all holders of a Wait that has
/// ended.
class PHAROS_API Wait {
 public:
  explicit Wait(Routine& waiting) : waiting_{waiting} {}

  /// Returns true only to the first caller, which must then call resume(). Any thread.
  bool claim(WaitEnd end) {
    WaitEnd pending = WaitEnd::kPending;
    return end_.compare_exchange_strong(pending, end, std::memory_order_acq_rel);
  }
  /// Lets the coroutine continue on its executor. Only the caller whose claim() returned true may call this, once. Any
  /// thread.
  void resume();

  WaitEnd end() const { return end_.load(std::memory_order_acquire); }

 private:
  Routine& waiting_;
  std::atomic<WaitEnd> end_{WaitEnd::kPending};  // whoever reads an end sees what its claimer did before
};

/// The awaiter of `co_await suspend(…)`. Returns how the wait ended, and cancels the timer of the deadline. Lives in
/// the frame of the coroutine that waits.
class PHAROS_API Suspension {
 public:
  Suspension(std::shared_ptr<Wait> wait, Deadline deadline, bool cancellable)
      : wait_{std::move(wait)}, deadline_{deadline}, cancellable_{cancellable} {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) {
    begin(*waiting.promise().routine, waiting);
  }
  WaitEnd await_resume();

 private:
  void begin(Routine& routine, std::coroutine_handle<> waiting);

  std::shared_ptr<Wait> wait_;
  Deadline deadline_;
  bool cancellable_;
  Executor* executor_ = nullptr;
  TimerId timer_;
};

[[nodiscard]] inline Suspension suspend(std::shared_ptr<Wait> wait, Deadline deadline) {
  return {std::move(wait), deadline, true};
}
/// For joining: a cancelled coroutine must still wait for the coroutines that it started.
[[nodiscard]] inline Suspension suspend_uncancellable(std::shared_ptr<Wait> wait, Deadline deadline) {
  return {std::move(wait), deadline, false};
}

/// The error of a wait that ended by deadline (kDeadlineExceeded) or cancellation (kCancelled); any other end aborts
/// the process. `attempted` names the attempt: "receiving from a channel".
PHAROS_API Error wait_error(WaitEnd end, std::string_view attempted);

}  // namespace pharos::async::detail
