#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace pharos::simulated {

using QueueNumber = std::size_t;

/// How many pieces of work of each queue come before something. A value.
class Clock {
 public:
  void join(const Clock& other);
  /// Counts one more piece of work of this queue, and returns its number, from 1.
  std::uint64_t advance(QueueNumber queue);
  /// Returns whether the piece of this queue comes before.
  bool covers(QueueNumber queue, std::uint64_t piece) const {
    return queue < pieces_.size() && pieces_[queue] >= piece;
  }

 private:
  std::vector<std::uint64_t> pieces_;  // by queue
};

/// The accesses to one block of device memory that later accesses may have to come after. A value; OrderChecker uses
/// it.
struct AccessLog {
  struct Access {
    std::size_t from = 0;
    std::size_t to = 0;
    QueueNumber queue = 0;
    std::uint64_t piece = 0;
    bool writes = false;
    std::string name{};
  };
  std::vector<Access> accesses{};
};

/// Finds accesses to device memory that nothing orders: two pieces of work of different queues that use the same bytes,
/// at least one of which writes, and neither of which comes before the other. It looks at what orders them (the order
/// of a queue, events, waits of the host), and not at the times at which they happen to run, so each run finds them
/// all.
///
/// One for the process; never destroyed. Any thread. Nothing fails.
class OrderChecker {
 public:
  /// A piece of work that is being queued. Its accesses follow, before the next piece of the same queue.
  struct Piece {
    QueueNumber queue = 0;
    std::uint64_t number = 0;
  };

  QueueNumber add_queue();
  /// Begins a piece of work: it comes after all that the host knows to be done, and after all earlier work of its
  /// queue.
  Piece begin(QueueNumber queue);
  /// The piece uses the bytes [from, to) of a block.
  void note(const Piece& piece, AccessLog& log, std::size_t from, std::size_t to, bool writes, const std::string& name);
  /// The owner frees a block, on this queue, when `users` have done what they were given so far.
  void note_free(QueueNumber queue, const std::vector<QueueNumber>& users, AccessLog& log, std::size_t bytes);

  /// What an event that is recorded now on this queue comes after.
  Clock now(QueueNumber queue);
  /// Later work of the queue comes after what the event came after.
  void wait(QueueNumber queue, const Clock& event);
  /// The host has waited for that.
  void host_waited(const Clock& for_what);

  /// Returns what was found since the last call: one sentence for each pair of accesses.
  std::vector<std::string> take_reports();

 private:
  void check(const Clock& known, const AccessLog& log, const AccessLog::Access& access);
  void join_host(QueueNumber queue) { clocks_[queue].join(host_); }

  std::mutex mutex_;
  std::vector<Clock> clocks_;  // by queue: what its next piece comes after
  Clock host_;                 // what the host knows to be done
  std::vector<std::string> reports_;
};

OrderChecker& order();

}  // namespace pharos::simulated
