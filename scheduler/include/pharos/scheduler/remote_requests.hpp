#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {

/// Decides which requests of a full node the head is asked to serve at another node, and when. Meanwhile the requests
/// also stay in the node's own queue, and take the first worker that either side offers. Here, requests with the same
/// demand share a line, and the lines take turns, so a demand that fits on no node delays no other demand. While the
/// head finds no room for a line, the line gets one question in a round; while the head finds room, it gets many at the
/// same time.
/// Pure. Owned by Elsewhere, which calls it on the node's strand and decides when a round begins. Bounds: kAskedMax,
/// kAgainMax. The requests that wait are limited by Leases.
class RemoteRequests {
 public:
  static constexpr std::size_t kAskedMax = 16;  ///< questions under way at the same time
  static constexpr std::size_t kAgainMax = 4;   ///< lines without success that may ask again in one round

  /// `waits` returns whether a request still waits. add() and next() call it, and it must not call this object.
  explicit RemoteRequests(std::function<bool(LeaseRequestId)> waits) : waits_{std::move(waits)} {}

  void add(const Demand& demand, LeaseRequestId request);
  /// Returns the request to ask the head for next; nullopt if no question may be asked at this time. The node must
  /// report the answer by found_room(), found_none() or forget(); these ignore a request that was not asked for.
  std::optional<LeaseRequestId> next();
  /// The request is served elsewhere, and is not kept here any more.
  void found_room(LeaseRequestId request);
  /// The request goes back to the front of its line.
  void found_none(LeaseRequestId request);
  /// The request's answer is not wanted any more. A request that was not asked for stays in its line until a turn finds
  /// that it does not wait.
  void forget(LeaseRequestId request);
  void begin_round();

  bool empty() const { return lines_.empty(); }
  std::size_t asked() const { return asked_.size(); }
  /// The number of requests that were added and not asked for, including some that do not wait any more.
  std::size_t kept() const;

 private:
  struct Line {
    std::deque<LeaseRequestId> waiting;  // some of which do not wait any more
    // When `waiting` has this many requests, those that do not wait any more are removed.
    std::size_t look_through_at = 64;
    std::size_t asked = 0;
    std::size_t asked_max = 1;
    bool found_none = false;       // the last answer was that no node has room
    std::uint64_t last_round = 0;  // the round in which the line last asked
  };
  using Lines = std::map<Demand, Line>;

  bool may_ask(const Line& line) const;
  Line* answered(LeaseRequestId request);

  std::function<bool(LeaseRequestId)> waits_;
  // A line that is found without requests and without questions at its turn is removed.
  Lines lines_;
  std::unordered_map<LeaseRequestId, Demand> asked_;
  std::optional<Demand> last_;  // the line that had the last turn
  std::uint64_t round_ = 1;
  std::size_t again_ = 0;  // lines without success that have asked in this round
};

}  // namespace pharos::scheduler
