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

/// How every wait of this folder works.
///
/// 1. The coroutine makes a Wait and leaves it where the event will look for it.
/// 2. `co_await suspend(wait, deadline)` parks the coroutine and sets a timer for the deadline.
/// 3. The event (any thread), the timer and cancellation each try to claim() it. One wins, leaves what it brings, and
///    calls resume(), which posts to the coroutine's executor.
///
/// The Wait may be claimed between 1 and 2: the resumption is posted to the strand that the coroutine still occupies.
/// Whoever holds the Wait shares it, so that a late event or timer finds a Wait that is over, not one that is gone.
namespace pharos::async::detail {

enum class WaitEnd : std::uint8_t { kPending, kReady, kDeadline, kCancelled };

class PHAROS_API Wait {
 public:
  explicit Wait(Routine& waiting) : waiting_{waiting} {}

  /// True for the first caller only, who then has to call resume(). Any thread.
  bool claim(WaitEnd end) {
    WaitEnd pending = WaitEnd::kPending;
    return end_.compare_exchange_strong(pending, end, std::memory_order_acq_rel);
  }
  /// The coroutine goes on, on its executor. Once, by whoever claimed. Any thread.
  void resume();

  WaitEnd end() const { return end_.load(std::memory_order_acquire); }

 private:
  Routine& waiting_;
  std::atomic<WaitEnd> end_{WaitEnd::kPending};
};

/// What `co_await suspend(…)` waits with.
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
/// For joining: what is cancelled still has to wait for what it started.
[[nodiscard]] inline Suspension suspend_uncancellable(std::shared_ptr<Wait> wait, Deadline deadline) {
  return {std::move(wait), deadline, false};
}

/// The error of a wait that brought nothing. `attempted`: "receiving from a channel".
PHAROS_API Error wait_error(WaitEnd end, std::string_view attempted);

}  // namespace pharos::async::detail
