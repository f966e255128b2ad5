#pragma once

#include <chrono>

namespace pharos {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// A source of monotonic time: the machine's clock, an async::Executor, or a clock that a test controls. Wall-clock
/// time is for logs only. The owner keeps the clock alive longer than every object that uses it. Any thread may call
/// now(), except for a ManualClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's clock, CLOCK_MONOTONIC. Any thread may read it.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// A clock for tests: its time changes only in advance(). Not thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{std::chrono::hours{1}};
};

}  // namespace pharos
