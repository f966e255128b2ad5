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

/// Sockets that a node hands to its workers, each from when it is sent until the worker has it or is gone. What is on
/// its way counts against limits of the whole machine, and a process that is stopped takes nothing: so only so many are
/// on their way at once, the node's and each worker's, and the others wait in line. A worker that has taken none for a
/// while holds up those that want it, and nobody else: what is on its way to it does not count for the node then.
/// Pure; owned by the node, on its strand. Numbers are the node's own. Bounds: kUnderWayMax, kOfWorkerMax, kWaitingMax.
class HandOvers {
 public:
  static constexpr std::size_t kUnderWayMax = 64;
  static constexpr std::size_t kOfWorkerMax = 16;
  static constexpr std::size_t kWaitingMax = std::size_t{1} << 16;
  static constexpr Duration kSlowTime = std::chrono::seconds{1};

  enum class Turn : std::uint8_t {
    kNow,
    kLater,    ///< taken() or tick() will name it
    kRefused,  ///< too many wait
  };
  Turn add(WorkerId worker, std::uint64_t number, TimePoint now);

  /// The worker has one, or is gone and will not have it. Which may go now, in the order in which they came.
  std::vector<std::uint64_t> taken(WorkerId worker, TimePoint now);
  /// To be called every kSlowTime while any wait.
  std::vector<std::uint64_t> tick(TimePoint now);

  /// To workers that take them.
  std::size_t under_way() const { return under_way_; }
  std::size_t waiting() const { return waiting_; }

 private:
  struct Worker {
    std::size_t under_way = 0;
    bool slow = false;
    TimePoint since;                                           // when it took one, or had none
    std::deque<std::pair<std::uint64_t, std::uint64_t>> line;  // place and number
  };
  bool has_room_for(const Worker& worker) const;
  void begin(Worker& worker, TimePoint now);
  std::vector<std::uint64_t> begin_those_that_may(TimePoint now);

  std::unordered_map<WorkerId, Worker> workers_;  // that have any
  std::size_t under_way_ = 0;                     // to those that are not slow
  std::size_t waiting_ = 0;
  std::uint64_t last_place_ = 0;
};

}  // namespace pharos::scheduler
