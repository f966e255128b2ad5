#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <pharos/async/executor.hpp>
#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_connections.hpp"
#include "head/actors/actor_handles.hpp"
#include "head/actors/actor_maker.hpp"
#include "head/actors/actor_places.hpp"
#include "head/actors/actor_records.hpp"
#include "head/actors/early_questions.hpp"
#include "head/caller_table.hpp"
#include "head/drains.hpp"
#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/group_table.hpp"
#include "head/job_table.hpp"
#include "head/lease_broker.hpp"
#include "head/listing.hpp"
#include "head/node_table.hpp"
#include "head/records.hpp"
#include "head/recovery.hpp"
#include "head/request_numbers.hpp"
#include "head/value_table.hpp"

namespace pharos::node {

/// The head of a cluster: its nodes, its jobs, the life of its actors and their names. No call of an actor or a task
/// passes through the head.
/// Nodes, jobs, actors and groups outlive the head in Records. Which caller holds an actor, waits for resources or has
/// leased a worker is known to the nodes, and they report it to a head that has started again.
/// Head and nodes exchange control messages (runtime/wire) over whatever connects them. The node in the head's own
/// process is a node like the others.
/// Head builds its parts, which do the work, gives each message to the part that it concerns, and orders what concerns
/// several parts: the ends of jobs, callers and nodes, and the recovery.
/// Failure: a question that cannot be met is answered with wire::Refused. Messages from nodes that it does not know,
/// and those that are not for a head, are ignored. With records a message waits until the changes before it are
/// durable, unless it is output. After a failed write nothing else is sent any more, and the owner replaces the head.
/// Owned by HeadHere. Everything runs on one strand, also the callbacks that the head is given. Does not block. The
/// executor and the records outlive it. End: the destructor; timers that are still set do nothing then, and nobody is
/// told.
class Head : private head::Effects {
 public:
  /// Sends a message to a node. Never calls the head from inside.
  using Tell = head::Events::Tell;

  /// `own`: the node in the head's own process. Without `records` nothing outlives the head.
  explicit Head(async::Executor& executor, NodeId own = {}, Records* records = nullptr);
  Head(Head&&) = delete;
  /// Continues where an earlier head stopped. To be called before everything else. Records that do not fit together are
  /// set aside.
  /// The nodes of the earlier head have 10 s to come back, each by return_node() and its reports; after that they are
  /// lost. Until each of them is back or lost, no request is refused because nothing could ever satisfy it, and no
  /// actor ends because no caller holds it.
  void restore(Records::Found found);

  struct NodeDescription {
    std::string address;  ///< where other nodes reach it; empty for the node in the head's own process
    scheduler::Resources total;
    scheduler::Labels labels{};
  };
  /// Adds a node that joins, which must not be known. The first message that the node is sent is ClusterJoined. `tell`
  /// is kept until the node is removed.
  void add_node(NodeId node, const NodeDescription& description, Tell tell);
  bool knows(NodeId node) const { return nodes_.contains(node); }
  /// Returns whether this is a node of an earlier head that has not come back yet.
  bool expects(NodeId node) const { return recovery_.expects(node); }
  /// Returns whether the node has come back but has not sent its last report yet.
  bool awaits_report_of(NodeId node) const { return recovery_.awaits_report_of(node); }
  /// An expected node of an earlier head has come back; its reports follow. The first message that it is sent is
  /// ClusterJoined.
  void return_node(NodeId node, const NodeDescription& description, Tell tell);
  /// The node is given up: everything on it is gone. A node that had not reported everything has 10 s more to return.
  /// An unknown node is ignored.
  /// `was_silent`: nothing came from it for so long that its exclusive actors have ended by themselves.
  void remove_node(NodeId node, bool was_silent = false);
  /// Nothing comes from the node, perhaps because the link of the head's machine is down. What is on the node is not
  /// lost. Questions about where it or its actors are reached wait until it is back or lost. Messages to the node are
  /// still sent.
  void node_is_away(NodeId node) { nodes_.begin_silence(node); }
  void node_is_back(NodeId node);
  void on_message(NodeId from, wire::Message message);
  /// For tests: says what is still kept after all jobs have ended. Empty if nothing is.
  std::string leftovers() const;
  /// For tests, between two events: says what is given twice, or is neither free nor given. Empty if all is well.
  std::string check() const;
  /// For tests: what the records have to contain now, by key. A record that is written once only has no value here.
  /// Returns nullopt during a recovery.
  std::optional<std::map<std::string, std::optional<wire::Message>>> recorded() const;

 private:
  static constexpr Duration kReturnTime = std::chrono::seconds{10};  // for nodes to return to a restarted head

  wire::ClusterJoined welcome() const;
  void try_again_with_new_node();

  // Messages.
  void handle(NodeId from, wire::Message any);
  void note_caller(NodeId from, const wire::Message& any);
  bool admits(NodeId from, const wire::Asker& asker);
  void promise_actor(NodeId from, const wire::PromiseActor& promise);
  void start_actor(NodeId from, wire::StartActor start);
  void note_constructed(const wire::ActorConstructed& made);
  void place_group(NodeId from, wire::PlaceGroup place);
  void write_value(NodeId from, const wire::WriteValue& asked);
  void note_load(NodeId from, wire::NodeLoad load);
  void list_for(NodeId from, const wire::ListRows& asked);

  // What concerns several parts.
  void apply(const scheduler::ActorEffects& effects) override;
  void apply(const scheduler::PlacementEffects& effects) override;
  void complete_event();
  void end_job(JobId job);
  void end_jobs_without_driver();
  void end_caller(CallerId caller);
  void lose_node(NodeId node, const std::string& reason, bool was_silent = false);
  void tell_holders(ActorId actor, std::uint32_t incarnation, const std::string& reason);

  // Recovery (head_recovery.cpp).
  bool restore_node(const wire::JoinCluster& join);
  void begin_again();
  void give_up_the_overdue();
  void take_report(NodeId from, wire::Report part);
  void end_recovery_if_over();

  head::Events events_;
  head::Recovery recovery_;
  head::RequestNumbers numbers_;
  scheduler::ActorTable actors_;
  scheduler::Fleet fleet_;
  scheduler::Placement placement_;
  head::NodeTable nodes_;
  head::JobTable jobs_;
  head::CallerTable callers_;
  head::GroupTable groups_;
  head::LeaseBroker leases_;
  head::ActorPlaces places_;
  head::ActorRecords actor_records_;
  head::ActorConnections connections_;
  head::ActorMaker maker_;
  head::ActorHandles handles_;
  head::EarlyQuestions early_;
  head::Drains drains_;
  head::ValueTable values_;
  head::Listing listing_;
};

}  // namespace pharos::node
