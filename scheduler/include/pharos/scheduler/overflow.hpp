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

/// Requests that wait at a full node and may be served by another: for which of them the head is to be asked, and when.
/// They stay in the node's own line meanwhile, and have what comes first. Here, who asks for the same waits in the same
/// line, and the lines have their turns, so that what no node has room for holds up nothing else: as long as there is
/// none, a line has one question a round, and while there is some, many at once.
/// Pure; owned by the node, on its strand, which says when a round begins. Bounds: kAskedMax, kAgainMax.
class Overflow {
 public:
  static constexpr std::size_t kAskedMax = 16;  ///< questions at once
  static constexpr std::size_t kAgainMax = 4;   ///< lines that are asked for again in one round

  /// `waits`: whether a request still does.
  explicit Overflow(std::function<bool(LeaseRequestId)> waits) : waits_{std::move(waits)} {}

  void add(const Demand& demand, LeaseRequestId request);
  /// The one to ask for now, of which found_room(), found_none() or forget() is to tell then.
  std::optional<LeaseRequestId> next();
  void found_room(LeaseRequestId request);
  void found_none(LeaseRequestId request);
  /// Nobody waits for the answer any more.
  void forget(LeaseRequestId request);
  void begin_round();

  bool empty() const { return lines_.empty(); }
  std::size_t asked() const { return asked_.size(); }
  /// Of those that were added; some do not wait any more.
  std::size_t kept() const;

 private:
  struct Line {
    std::deque<LeaseRequestId> waiting;  // some of which do not any more
    std::size_t look_through_at = 64;    // so many
    std::size_t asked = 0;
    std::size_t asked_max = 1;
    bool found_none = false;       // the last time
    std::uint64_t last_round = 0;  // in which it was asked for
  };
  using Lines = std::map<Demand, Line>;

  bool may_ask(const Line& line) const;
  Line* answered(LeaseRequestId request);

  std::function<bool(LeaseRequestId)> waits_;
  Lines lines_;  // each has somebody who waits, or a question
  std::unordered_map<LeaseRequestId, Demand> asked_;
  std::optional<Demand> last_;  // whose turn it was
  std::uint64_t round_ = 1;
  std::size_t again_ = 0;  // in this round
};

}  // namespace pharos::scheduler
