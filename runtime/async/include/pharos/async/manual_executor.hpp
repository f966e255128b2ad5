#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>

namespace pharos::async {

/// An executor that runs callbacks only inside run_until_idle() and advance(), with its own simulated time. For tests.
/// The order is fixed: first the posted callbacks, first in first out; when none is left, the due timers, by time and
/// then in the order of run_at(); only then does advance() move the time.
///
/// Owned by the test. Threads: one thread calls run_until_idle() and advance(). Any thread may call the members of
/// Executor, but callbacks that other threads post have no fixed order.
/// Failure: to call run_until_idle() or advance() within a callback, or after a callback has thrown, aborts the
/// process.
/// End: callbacks and timers that have not run are destroyed. The destructor must not be called from within a callback.
class PHAROS_API ManualExecutor final : public Executor {
 public:
  ManualExecutor() = default;
  ~ManualExecutor() override;

  void post(Callback work) override;
  TimePoint now() const override;
  TimerId run_at(TimePoint when, Callback work) override;
  bool cancel(TimerId timer) override;

  /// Runs the posted callbacks and due timers, including those that the callbacks add. Returns how many ran.
  std::size_t run_until_idle();

  /// Moves the time forward by `by`, which must not be negative. Each timer on the way runs when now() is its own time.
  /// Returns how many callbacks and timers ran.
  std::size_t advance(Duration by);

  /// The time of the earliest timer; nullopt if there is no timer.
  std::optional<TimePoint> next_timer() const;

 private:
  Callback take_next();
  void set_now(TimePoint now);

  mutable std::mutex mutex_;
  TimePoint now_{std::chrono::hours{1}};
  std::deque<Callback> posted_;
  TimerQueue timers_;
  bool running_ = false;  // true inside run_until_idle(); only the driving thread uses it
};

}  // namespace pharos::async
