#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/async/executor.hpp>

namespace pharos::async {

/// The timers of one executor, earliest first, then in the order of add(). Pure: the time is passed in.
/// Owned and locked by its executor. Adding takes O(log n), cancelling O(1): most timers are deadlines, and most
/// deadlines are cancelled long before they come. Holds at most twice as many entries as there are timers.
class TimerQueue {
 public:
  TimerId add(TimePoint when, Callback work);

  /// The work of a timer that has not been taken, for the caller to destroy once it holds no lock; empty if there is
  /// none.
  Callback cancel(TimerId timer);

  /// When the earliest timer is due.
  std::optional<TimePoint> next() const;

  /// Takes out the work of the earliest timer that is due; empty if none is.
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

  // A heap of all entries, cancelled ones too, but never with a cancelled one on top.
  std::vector<Entry> heap_;
  std::unordered_map<TimerId, Callback> work_;
  std::uint64_t last_ = 0;
};

}  // namespace pharos::async
