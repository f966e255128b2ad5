#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>

namespace pharos::scheduler {

/// Limits how many sockets are on their way from a node to its workers. A socket is on its way from when it is sent
/// until the worker has it or has ended. Such sockets count against limits of the whole machine, and a suspended
/// process takes none, so their number is limited for the node and for each worker; all others wait in line. A worker
/// that takes no socket for kSlowTime is slow: it delays only the callers that want this worker, because the sockets on
/// their way to it do not count towards the node's limit then.
/// Pure. Owned by HandOverLine, which calls it on the node's strand and chooses the numbers of the sockets. Bounds:
/// kUnderWayMax on their way from the node to workers that are not slow, kOfWorkerMax to each worker, and kWaitingMax
/// that wait.
class HandOvers {
 public:
  static constexpr std::size_t kUnderWayMax = 64;
  static constexpr std::size_t kOfWorkerMax = 16;
  static constexpr std::size_t kWaitingMax = std::size_t{1} << 16;
  static constexpr Duration kSlowTime = std::chrono::seconds{1};

  enum class Turn : std::uint8_t {
    kNow,
    kLater,    ///< taken() or tick() will return its number
    kRefused,  ///< too many wait; nothing is kept of this socket
  };
  Turn add(WorkerId worker, std::uint64_t number, TimePoint now);

  /// Reports that the worker has received a socket, or has ended and will not receive it. To be called once for each
  /// socket whose turn has come, also for a socket that nobody wants any more; one call too many ends the process.
  /// Sockets in the line of a worker that has ended get their turns too. Returns the numbers of the sockets that may be
  /// sent at this time, in the order in which they were added.
  std::vector<std::uint64_t> taken(WorkerId worker, TimePoint now);
  /// Returns numbers as taken() does. To be called every kSlowTime while sockets wait.
  std::vector<std::uint64_t> tick(TimePoint now);

  /// Sockets on their way to workers that are not slow.
  std::size_t under_way() const { return under_way_; }
  std::size_t waiting() const { return waiting_; }

 private:
  struct Worker {
    std::size_t under_way = 0;
    bool slow = false;
    // When the worker last took a socket, or got the first of those on their way.
    TimePoint since;
    // Each socket's place among all that wait, and its number.
    std::deque<std::pair<std::uint64_t, std::uint64_t>> line;
  };
  bool has_room_for(const Worker& worker) const;
  void begin(Worker& worker, TimePoint now);
  std::vector<std::uint64_t> begin_those_that_may(TimePoint now);

  std::unordered_map<WorkerId, Worker> workers_;  // workers to which sockets are on their way or wait
  std::size_t under_way_ = 0;                     // to workers that are not slow
  std::size_t waiting_ = 0;
  std::uint64_t last_place_ = 0;
};

}  // namespace pharos::scheduler
