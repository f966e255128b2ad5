#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <pharos/base/id.hpp>

namespace pharos::scheduler {

/// What callers have of actors: how often each caller holds each actor, and which actors it has promised to create. A
/// caller's number of holds may be negative for a while, because a release may come before the hold that it undoes; the
/// caller counts as a holder then. Callers that have ended hold nothing any more, and later holds by them are ignored:
/// the last kEndedMax of them are remembered.
/// Owned by ActorTable, and not thread-safe.
class Holders {
 public:
  static constexpr std::size_t kEndedMax = 65536;

  /// The caller has the actor once more. The caller is a holder from now on, also if the number comes to zero here: an
  /// early release belongs to a hold that has not arrived yet. The entry goes with the caller, or when add() brings the
  /// number to zero again.
  void take(ActorId actor, CallerId caller);
  /// Adds `count`, which may be negative, to the caller's holds. Returns whether the caller was a holder and is none
  /// now.
  bool add(ActorId actor, CallerId caller, std::int64_t count);
  /// Sets the number of holds. Returns whether the caller was a holder and is none now.
  bool set(ActorId actor, CallerId caller, std::int64_t count);
  bool is_held(ActorId actor) const { return holds_.contains(actor); }
  std::vector<CallerId> of(ActorId actor) const;
  /// Nobody holds the actor any more.
  void release_all(ActorId actor);

  /// The creator must not have ended: see has_ended().
  void promise(ActorId actor, CallerId creator) { promised_[creator].insert(actor); }
  void end_promise(ActorId actor, CallerId creator);
  std::unordered_set<ActorId> promised_by(CallerId creator) const;

  /// The caller has ended, and holds nothing from here on. Returns the actors that it held. Its promises stay until
  /// end_promise().
  std::unordered_set<ActorId> end_caller(CallerId caller);
  bool has_ended(CallerId caller) const { return ended_.contains(caller); }
  /// Returns the callers that have promised actors, and then those that hold actors.
  std::vector<CallerId> callers() const;

 private:
  using Counts = std::unordered_map<CallerId, std::int64_t>;
  bool remove(ActorId actor, CallerId caller);
  void forget_held(ActorId actor, CallerId caller);

  std::unordered_map<ActorId, Counts> holds_;  // only actors that somebody holds
  std::unordered_map<CallerId, std::unordered_set<ActorId>> held_by_;
  std::unordered_map<CallerId, std::unordered_set<ActorId>> promised_;
  std::unordered_set<CallerId> ended_;
  std::deque<CallerId> ended_in_order_;  // oldest first
};

}  // namespace pharos::scheduler
