#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/async/executor.hpp>

namespace pharos::async {

/// The timers of one executor, ordered by time, then by the order of add(). It reads no clock: the time is passed in.
/// Owned by its executor, which also locks it. The destructor destroys the work of all timers. Adding takes O(log n)
/// and cancelling O(1) on average: most timers are deadlines, and most deadlines are cancelled long before they expire.
/// After a cancel() or take_due() the heap holds at most twice as many entries as there are timers.
class TimerQueue {
 public:
  TimerId add(TimePoint when, Callback work);

  /// Removes a timer and returns its work, which the caller destroys after it has released its lock. Returns an empty
  /// callback if the timer was taken or cancelled before.
  Callback cancel(TimerId timer);

  /// The time of the earliest timer; nullopt if there is no timer.
  std::optional<TimePoint> next() const;

  /// Removes the earliest timer that is due and returns its work; an empty callback if no timer is due.
  Callback take_due(TimePoint now);

  bool empty() const { return work_.empty(); }

 private:
  struct Entry {
    TimePoint when;
    TimerId timer;
  };
  static bool later(const Entry& a, const Entry& b);

  void pop();
  void drop_cancelled();

  // A heap of all entries, cancelled ones included, except that the top entry is never a cancelled one.
  std::vector<Entry> heap_;
  std::unordered_map<TimerId, Callback> work_;
  std::uint64_t last_ = 0;
};

}  // namespace pharos::async
