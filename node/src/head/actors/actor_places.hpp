#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/running_table.hpp"
#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/job_table.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// The incarnations of actors: how each is made, which wait for resources, and which run on which node. ActorTable says
/// when an incarnation has to start or end. This class gets a place for it from Placement, tells the node, and reports
/// to ActorTable how it has ended. An incarnation waits for resources without a limit.
/// Failure: if no node could ever run an actor, and none that can joins in the time that the actor allows, ActorTable
/// hears that its constructor has failed. Reports of
/// incarnations that do not run are ignored. place() and note_placed() need an actor whose making and job are known.
/// Owned by Head; on its strand. Pointers that it returns are valid until the actor or its job is forgotten.
class ActorPlaces {
 public:
  /// After this time without word from the head the process of an exclusive actor has ended by itself, whatever has
  /// happened to its node.
  static constexpr Duration kExclusiveTime = std::chrono::seconds{9};

  /// Is called when an incarnation has ended, after ActorTable has heard of it, inside note_ended().
  using WhenGone = std::function<void(ActorId)>;

  ActorPlaces(Events& events, scheduler::ActorTable& actors, scheduler::Placement& placement, JobTable& jobs,
              const Recovery& recovery, Effects& effects, WhenGone when_gone);

  /// Keeps and records how the actor is made, unless that is known.
  void keep_making(ActorId actor, wire::StartActor making);

  // ---- Effects of ActorTable and Placement

  /// Sets the timer for the next restart that ActorTable plans, if it plans one.
  void wait_for_restarts();
  /// Nothing is placed for a job that stops.
  void place(const scheduler::StartIncarnation& start);
  void note_placed(const scheduler::Placed& placed);
  void refuse(const scheduler::Unplaceable& unplaceable);
  void end(const scheduler::EndIncarnation& end);

  // ---- Events

  void note_ended(const wire::IncarnationEnded& ended);
  /// The node of this incarnation is lost, and perhaps not its process. An exclusive actor then starts again only when
  /// its process has ended by itself.
  void keep_back_if_exclusive(ActorId actor);
  /// Forgets how an actor is made that has ended for good.
  void forget_if_over(ActorId actor);
  void forget_job(JobId job);
  /// The node drains: its actors move to other nodes, or stop, and a running call has 30 s to finish. Actors that may
  /// not be restarted stay. With `over` those that have not gone end at once. Returns whether an actor was still there.
  /// May be called again.
  bool leave(NodeId node, bool over);

  // ---- Recovery

  void restore_making(ActorId actor, const wire::StartActor& making) { makings_.emplace(actor, making); }
  void restore_running(ActorId actor, std::uint32_t incarnation, NodeId node);
  void restore_last_end(ActorId actor, std::string reason, bool out_of_memory);
  /// Places the restored incarnations that run nowhere.
  void place_missing();
  void take_report(NodeId from, const wire::Report& report);
  /// A node has joined: tries again to place the actors that wait for one.
  void place_wanting();
  /// All nodes are known: places the incarnations that none of the nodes known before could run.
  void place_unplaceable();

  // ---- State

  /// Returns nullptr if the actor is unknown or over.
  const wire::StartActor* find_making(ActorId actor) const;
  /// How to make the actors that live or will live again.
  const std::unordered_map<ActorId, wire::StartActor>& makings() const { return makings_; }
  const RunningTable& running() const { return running_; }
  /// The actors that wait for resources, and the incarnation of each.
  const std::unordered_map<ActorId, std::uint32_t>& unplaced() const { return unplaced_; }
  /// How the actor's last incarnation ended; nullptr if none has.
  const wire::IncarnationEnded* find_last_end(ActorId actor) const;
  std::size_t last_ends() const { return last_ends_.size(); }
  /// Returns whether another node may still fetch an executable from this one: the driver of the job has ended, and an
  /// actor of the job is still to start.
  bool may_need_program_of(NodeId node) const;
  /// Returns the actors whose place or last end has changed since the last call.
  std::unordered_set<ActorId> take_changed() { return std::exchange(changed_, {}); }

 private:
  void place(ActorId actor, std::uint32_t incarnation);
  void start(ActorId actor);

  Events& events_;
  scheduler::ActorTable& actors_;
  scheduler::Placement& placement_;
  JobTable& jobs_;
  const Recovery& recovery_;
  Effects& effects_;
  WhenGone when_gone_;
  std::unordered_map<ActorId, wire::StartActor> makings_;
  std::unordered_map<ActorId, std::uint32_t> unplaced_;
  std::unordered_map<ActorId, wire::IncarnationEnded> last_ends_;
  RunningTable running_;
  std::vector<ActorId> unplaceable_yet_;  // in a recovery: actors that none of the nodes known so far could run
  std::unordered_map<ActorId, TimePoint> wanting_until_;  // actors that no node could run, and how long they wait
  std::unordered_set<ActorId> wanting_;                   // those of them that wait for nodes that join
  std::unordered_set<ActorId> changed_;
  TimePoint next_restart_ = TimePoint::max();
};

}  // namespace pharos::node::head
