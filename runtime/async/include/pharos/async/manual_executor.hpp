#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>

namespace pharos::async {

/// An executor that does nothing until it is told to, in a time of its own. For tests and the simulator.
/// The order is fixed: what was posted, first in first out; when nothing is left, the timers that are due, by time and
/// then by their sequence; only then does the time move on.
///
/// Owned by the test. Threads: one drives it (run_until_idle, advance), never from within a callback; the members of
/// Executor are for any thread, though what other threads post has no fixed order. End: what has not run is destroyed.
class PHAROS_API ManualExecutor final : public Executor {
 public:
  ManualExecutor() = default;
  ~ManualExecutor() override;

  void post(Callback work) override;
  TimePoint now() const override;
  TimerId run_at(TimePoint when, Callback work) override;
  bool cancel(TimerId timer) override;

  /// Runs what is posted and what is due, and what those post in turn. The number of callbacks that ran.
  std::size_t run_until_idle();

  /// Lets `by` pass: each timer on the way finds now() at its own time.
  std::size_t advance(Duration by);

  /// When the next timer is due: what the simulator jumps to.
  std::optional<TimePoint> next_timer() const;

 private:
  Callback take_next();
  void set_now(TimePoint now);

  mutable std::mutex mutex_;
  TimePoint now_{std::chrono::hours{1}};
  std::deque<Callback> posted_;
  TimerQueue timers_;
  bool running_ = false;  // of the driving thread
};

}  // namespace pharos::async
