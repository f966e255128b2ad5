#pragma once

#include <chrono>
#include <compare>

#include <pharos/base/clock.hpp>
#include <pharos/base/machine.hpp>

namespace pharos::async {

/// The moment at which a wait ends. A plain value, which every wait takes. It is made once, where a request comes in,
/// and passed down unchanged, so that the parts of a call together take no longer than the call may take. Arithmetic
/// saturates: a very long Duration gives never(), not a moment in the past.
class Deadline {
 public:
  static constexpr Deadline at(TimePoint when) { return Deadline{when}; }
  static constexpr Deadline after(Duration from_now, TimePoint now) {
    if (from_now > Duration::zero() && now > TimePoint::max() - from_now) return never();
    if (from_now < Duration::zero() && now < TimePoint::min() - from_now) return at(TimePoint::min());
    return Deadline{now + from_now};
  }
  /// A deadline `from_now` later, by the clock of now(): `ref.get(Deadline::in(2s))`. Takes any duration of
  /// std::chrono, with numbers of any type: `Deadline::in(std::chrono::duration<double>{0.5})`. A duration that is not
  /// a number has expired.
  template <class Number, class Period>
  static Deadline in(std::chrono::duration<Number, Period> from_now) {
    return after(saturated(from_now), pharos::now());
  }
  /// A deadline by another clock. An Executor is a Clock: `Deadline::after(5s, executor)`.
  static Deadline after(Duration from_now, const Clock& clock) { return after(from_now, clock.now()); }
  /// No deadline. For a user's get() without a timeout, for tests, and for waits that something else surely ends.
  static constexpr Deadline never() { return Deadline{TimePoint::max()}; }

  constexpr TimePoint when() const { return when_; }
  constexpr bool is_never() const { return when_ == TimePoint::max(); }
  constexpr bool expired(TimePoint now) const { return !is_never() && now >= when_; }
  /// The time that is left: zero once the deadline has expired, Duration::max() for never().
  constexpr Duration left(TimePoint now) const {
    if (is_never()) return Duration::max();
    if (expired(now)) return Duration::zero();
    if (now < TimePoint{} && when_ > TimePoint::max() + now.time_since_epoch()) return Duration::max();
    return when_ - now;
  }

  /// An earlier deadline is smaller: `std::min(call, mine)`.
  friend constexpr auto operator<=>(Deadline, Deadline) = default;

 private:
  // The Duration that is nearest to another one. Half of the longest Duration, 146 years, is as good as never, and
  // leaves room for the errors of floating-point numbers.
  template <class Number, class Period>
  static constexpr Duration saturated(std::chrono::duration<Number, Period> other) {
    const double seconds = std::chrono::duration<double>{other}.count();
    const double most = std::chrono::duration<double>{Duration::max()}.count() / 2;
    if (seconds >= most) return Duration::max();
    if (!(seconds > -most)) return Duration::min();
    return std::chrono::duration_cast<Duration>(other);
  }

  constexpr explicit Deadline(TimePoint when) : when_{when} {}
  TimePoint when_;
};

}  // namespace pharos::async

namespace pharos {
using async::Deadline;
}  // namespace pharos
