#pragma once

#include <chrono>
#include <compare>

#include <pharos/base/clock.hpp>

namespace pharos::async {

/// The moment after which nobody waits any more. A value; every wait takes one.
/// Passed down as it is, so that a call's parts together take no longer than the call was given; made once, where the
/// request comes in. Arithmetic saturates: a very long Duration is never, not the past.
class Deadline {
 public:
  static constexpr Deadline at(TimePoint when) { return Deadline{when}; }
  static constexpr Deadline after(Duration from_now, TimePoint now) {
    if (from_now > Duration::zero() && now > TimePoint::max() - from_now) return never();
    if (from_now < Duration::zero() && now < TimePoint::min() - from_now) return at(TimePoint::min());
    return Deadline{now + from_now};
  }
  /// From now on, by the machine's clock: `ref.get(Deadline::in(2s))`.
  static Deadline in(Duration from_now) { return after(from_now, std::chrono::steady_clock::now()); }
  /// An Executor is a Clock: `Deadline::after(5s, executor)`.
  static Deadline after(Duration from_now, const Clock& clock) { return after(from_now, clock.now()); }
  /// Only for a user's get() without a timeout, and for tests: inside, every wait ends.
  static constexpr Deadline never() { return Deadline{TimePoint::max()}; }

  constexpr TimePoint when() const { return when_; }
  constexpr bool is_never() const { return when_ == TimePoint::max(); }
  constexpr bool expired(TimePoint now) const { return !is_never() && now >= when_; }
  /// Zero once it has expired; Duration::max() for never().
  constexpr Duration left(TimePoint now) const {
    if (is_never()) return Duration::max();
    if (expired(now)) return Duration::zero();
    if (now < TimePoint{} && when_ > TimePoint::max() + now.time_since_epoch()) return Duration::max();
    return when_ - now;
  }

  /// The earlier is the smaller: `std::min(call, mine)`.
  friend constexpr auto operator<=>(Deadline, Deadline) = default;

 private:
  constexpr explicit Deadline(TimePoint when) : when_{when} {}
  TimePoint when_;
};

}  // namespace pharos::async

namespace pharos {
using async::Deadline;
}  // namespace pharos
