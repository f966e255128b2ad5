#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/records.hpp"

namespace pharos::node {

/// The head of a cluster: its nodes, its jobs, the life of its actors and their names. No call of an actor or a task
/// passes through the head.
/// Nodes, jobs, actors and groups outlive the head in Records. Which caller holds an actor, waits for resources or has
/// leased a worker is known to the nodes, and they report it to a head that has started again.
/// Head and nodes exchange control messages (runtime/wire) over whatever connects them. The node in the head's own
/// process is a node like the others.
/// Owned by Membership. Everything runs on one strand, also the callbacks that the head is given. Does not block. End:
/// the destructor; timers that are still set do nothing then.
class Head {
 public:
  /// Sends a message to a node. Never calls the head from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;

  /// `own`: the node in the head's own process. Without `records` nothing outlives the head.
  explicit Head(async::Executor& executor, NodeId own = {}, Records* records = nullptr);
  Head(Head&&) = delete;
  /// Continues where an earlier head stopped. To be called before everything else. Records that do not fit together
  /// are set aside.
  /// The nodes of the earlier head have kReturnTime to come back, each by return_node() and its reports; after that
  /// they are lost. Until each of them is back or lost, no request is refused because nothing could ever satisfy it,
  /// and no actor ends because no caller holds it.
  void restore(Records::Found found);

  struct NodeDescription {
    std::string address;  ///< where other nodes reach it; empty for the node in the head's own process
    scheduler::Resources total;
    scheduler::Labels labels{};
  };
  /// Adds a node that joins. The first message that the node is sent is ClusterJoined.
  void add_node(NodeId node, const NodeDescription& description, Tell tell);
  bool knows(NodeId node) const { return nodes_.contains(node); }
  /// Returns whether this is a node of an earlier head that has not come back yet.
  bool expects(NodeId node) const { return expected_.contains(node); }
  /// Returns whether the node has come back but has not sent its last report yet.
  bool awaits_report_of(NodeId node) const { return reporting_.contains(node); }
  /// A node of an earlier head has come back; its reports follow. The first message that it is sent is ClusterJoined.
  void return_node(NodeId node, const NodeDescription& description, Tell tell);
  /// The node is given up: everything on it is gone. A node that had not reported everything may come back once more.
  /// `was_silent`: nothing came from it for so long that its exclusive actors have ended by themselves.
  void remove_node(NodeId node, bool was_silent = false);
  /// Nothing comes from the node, perhaps because the link of the head's machine is down. What is on the node is not
  /// lost. Questions about where it or its actors are reached wait until it is back or lost. Messages to the node are
  /// still sent.
  void node_is_away(NodeId node) { away_.insert(node); }
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
  /// After this time without word from the head the process of an exclusive actor has ended by itself, whatever has
  /// happened to its node.
  static constexpr Duration kExclusiveTime = std::chrono::seconds{9};

  struct Node {
    std::string address;
    Tell tell;
    std::uint64_t said = 0;       // messages that came from it and that it would repeat to another head
    std::uint64_t confirmed = 0;  // how many of those it knows to be durable
    std::vector<wire::WaitingTasks> waiting{};
  };
  struct Job {
    NodeId node;  // the driver's node; unset: the driver has ended, and detached actors go on
    wire::RegisterJob program;
    std::set<NodeId> known_at;
    std::optional<std::set<NodeId>> stopping;  // nodes that have not stopped the job yet; nullopt: it is not stopping
  };
  /// An incarnation whose process runs or is being started.
  struct Running {
    std::uint32_t incarnation = 0;
    NodeId node;
    std::vector<scheduler::ActorRequestId> reconnecting;  // requests of callers that have lost their connection to it
    bool untold = false;                                  // its node may not know of it, and has not come back yet
  };
  struct CallerPlace {
    NodeId node;
    JobId job;
  };
  struct Request {
    NodeId node;
    wire::Asker asker;
  };
  /// A lease of one node's worker to a caller of another node, requested or granted.
  struct Lease {
    NodeId at;          // the worker's node
    NodeId asked_from;  // the caller's node; unset: it was lost, or has not reported yet
    wire::Asker asker;
    wire::Demand demand;
    bool nested;
    bool only_now;
  };

  wire::ClusterJoined welcome() const;
  void on_question(NodeId from, wire::Message& message);
  bool put_off(NodeId from, const wire::Message& message);
  bool put_off_until_made(ActorId actor, NodeId from, const wire::Message& message);
  void answer_early_later(ActorId actor);
  void answer_early(ActorId actor);
  bool program_goes_on(NodeId from, const wire::Asker& asker);
  bool has_room(NodeId from, const wire::Asker& asker);
  void promise_actor(NodeId from, const wire::PromiseActor& promise);
  void answer(NodeId from, wire::Message& message);
  bool on_lease_message(NodeId from, wire::Message& message);
  bool on_group_message(NodeId from, wire::Message& message);
  void note_caller(const wire::Asker& asker, NodeId node);
  void start_actor(NodeId from, wire::StartActor start);
  void connect_actor(NodeId from, const wire::ConnectActor& connect);
  const std::string& address_of(NodeId node) const;
  void find_node(NodeId from, const wire::FindNode& find);
  void answer_who_looks_for(NodeId node);
  Result<wire::Rows> list(const wire::ListRows& asked) const;
  wire::Rows list_nodes() const;
  /// Texts that say what is in use of the resources of a demand, by job and demand. Each is made once, for all that
  /// wait with this demand.
  using Uses = std::map<std::pair<JobId, scheduler::Demand>, std::string>;
  std::string reason_of(const wire::StartActor& making, Uses& known) const;
  const std::string& use_of(const scheduler::Demand& demand, JobId asker, Uses& known) const;
  wire::Rows list_actors(std::size_t first) const;
  wire::Rows list_groups() const;
  wire::Rows list_jobs() const;
  wire::Rows list_pending(std::size_t first) const;
  void list_waiting_groups(wire::Rows& to, Uses& uses) const;
  void list_waiting_tasks(wire::Rows& to) const;
  void hold_actor(const wire::HoldActor& hold);
  void describe_actors(NodeId from, const wire::Asker& asker);
  std::string describe_use(const scheduler::Demand& demand, JobId asker) const;
  void incarnation_ended(const wire::IncarnationEnded& ended);
  void stop_job(JobId job);
  void job_stopped(JobId job, NodeId node);
  void end_job(JobId job);
  void leave_driver(JobId job);
  void end_jobs_without_driver();
  void kill_actor(const wire::KillActor& kill);
  Result<ActorId> find_actor(const wire::FindActor& find);
  void end_caller(CallerId caller);

  void place_group(NodeId from, wire::PlaceGroup place);
  void remove_group(GroupId group);
  void bundle_held(NodeId from, const wire::BundleHeld& held);
  bool may_use_group(const wire::Demand& demand, JobId job) const;

  void lease_worker(NodeId from, const wire::LeaseWorker& lease);
  Result<NodeId> node_for(const scheduler::Demand& demand, const wire::LeaseWorker& lease, NodeId from);
  void grant_lease(NodeId from, const wire::LeaseGranted& granted);
  void refuse_lease(wire::Refused refused);
  void end_lease(WorkerId worker, bool broken, const wire::WorkerEnded* ended);
  void recall_leases(const wire::RecallLeases& recalled);
  void end_leases_of(CallerId caller);
  void lease_again(const Lease& lease);
  void lose_leases_at(NodeId node);
  void show_job(NodeId node, JobId job);

  scheduler::ActorRequestId expect_answer(NodeId from, const wire::Asker& asker);
  void reconnect(ActorId actor, std::uint32_t incarnation);
  void apply(const scheduler::ActorEffects& effects);
  void apply(const scheduler::PlacementEffects& effects);
  void apply(const scheduler::Placed& placed);
  void apply(const scheduler::GroupPlaced& placed);
  void start_incarnation(ActorId actor);
  void hold_bundle(GroupId group, std::uint32_t index, NodeId node, const scheduler::Allotment& allotment);
  void place(ActorId actor, std::uint32_t incarnation);
  void end_incarnation(const scheduler::EndIncarnation& end);
  void tell(NodeId node, wire::Message message);
  void forget_if_over(ActorId actor);
  void tick_actors_at(TimePoint when);
  void note_running(ActorId actor, Running running);
  /// The incarnations on a node, in the order of their actors' ids.
  std::vector<std::pair<ActorId, std::uint32_t>> running_at(NodeId node) const;
  Running* find_running(ActorId actor, std::uint32_t incarnation);
  const Running* find_running(ActorId actor, std::uint32_t incarnation) const;
  void lose_node(NodeId node, const std::string& reason, bool was_silent = false);
  void pass_on_output(const wire::Output& output);
  void tell_holders(ActorId actor, std::uint32_t incarnation, const std::string& reason);

  // Draining nodes.
  Result<void> drain(const wire::DrainNode& drain);
  void begin_drain(const wire::DrainNode& drain);
  void drain_later();
  void drain_more(NodeId node, TimePoint limit);
  bool may_be_asked_for_program(NodeId node) const;

  // Records and recovery (head_records.cpp).
  void on_event(NodeId from, wire::Message message);
  void run_later(Duration after, async::UniqueFunction<void()> then);
  void end_event();
  void confirm_later(NodeId node);
  void write_changes();
  void write_life(ActorId actor);
  std::optional<wire::ActorLife> life_record(ActorId actor) const;
  void write_group(GroupId group);
  std::optional<wire::GroupPlaces> places_record(GroupId group) const;
  struct Restored;
  bool restore_node(const wire::JoinCluster& join);
  bool restore_group(const wire::PlaceGroup* place, const wire::GroupPlaces* places);
  bool restore_actor(const wire::ActorLife* life, const wire::StartActor* making, const wire::PromiseActor* promise);
  void begin_again();
  void expect(NodeId node, std::string address);
  void give_up_the_overdue();
  void on_report(NodeId from, wire::Report report);
  void end_callers_but(const wire::Report& report, NodeId from);
  void restore_holds(const wire::Report& report);
  void take_reported_bundles(NodeId from, const wire::Report& report);
  void take_reported_incarnations(NodeId from, const wire::Report& report);
  void end_recovery_if_over();
  void settle_leases();

  async::Executor& executor_;
  const NodeId own_;
  Records* const records_;                                // null: nothing is recorded
  std::vector<std::pair<NodeId, wire::Message>> outbox_;  // messages of the present event
  std::unordered_set<ActorId> moved_;           // actors whose place or last end has changed in the present event
  std::unordered_set<GroupId> moved_groups_;    // groups whose places have changed in the present event
  std::unordered_set<GroupId> removed_groups_;  // removed groups of which actors still use a part

  std::unordered_map<NodeId, Node> nodes_;
  std::unordered_map<CallerId, CallerPlace> callers_;  // callers that have asked something
  std::unordered_map<JobId, Job> jobs_;
  std::unordered_set<JobId> maybe_over_;  // jobs without a driver of which an actor has ended
  std::map<NodeId, TimePoint> draining_;  // draining nodes, with their time limits
  std::set<NodeId> away_;                 // nodes of which node_is_away() was told
  /// Questions for nodes that are away, by the node that is looked for: the asking node and its question.
  std::multimap<NodeId, std::pair<NodeId, wire::FindNode>> look_for_away_;

  scheduler::ActorTable actors_;
  std::unordered_map<ActorId, wire::StartActor> makings_;  // how to make the actors that live or will live again
  scheduler::Placement placement_;
  struct Group {
    wire::Asker asker;
    NodeId asked_from;
    std::string label;
    Strategy strategy;
    std::vector<scheduler::Demand> bundles;
    std::vector<NodeId> nodes;                 // node of each bundle; unset: the bundle has no place
    std::unordered_set<std::uint32_t> unheld;  // bundles that their nodes have not set aside yet
    bool answered = false;
    std::unordered_set<std::uint32_t> restored{};  // bundles of the records that their nodes have not reported yet
  };
  void answer_if_held(Group& group);
  std::unordered_map<GroupId, Group> groups_;
  std::unordered_map<ActorId, std::uint32_t> unplaced_;            // incarnations that wait for resources
  std::unordered_map<ActorId, wire::IncarnationEnded> last_ends_;  // how an actor's last incarnation ended
  std::unordered_map<ActorId, Running> running_;
  std::unordered_map<NodeId, std::unordered_set<ActorId>> running_at_;
  std::unordered_map<scheduler::ActorRequestId, Request> requests_;
  std::unordered_map<ActorId, std::vector<std::pair<NodeId, wire::Message>>> early_;  // messages about unknown actors
  std::unordered_map<std::uint64_t, Lease> lease_requests_;  // by the number of the request to the worker's node
  std::unordered_map<WorkerId, Lease> leases_;
  std::uint64_t last_request_;
  TimePoint next_tick_ = TimePoint::max();

  std::size_t set_aside_ = 0;  // records that this head and earlier ones have set aside
  std::shared_ptr<char> alive_ = std::make_shared<char>();

  // The state of a recovery.
  bool recovering_ = false;
  static constexpr Duration kReturnTime = std::chrono::seconds{10};  // for nodes to return to a restarted head
  struct Expected {
    std::string address;  // where other nodes reached it
    TimePoint until;      // when it is given up
  };
  std::unordered_map<NodeId, Expected> expected_;          // nodes that have not come back yet
  std::unordered_map<NodeId, wire::Report> reporting_;     // nodes that are back, and their reports so far
  std::unordered_map<WorkerId, NodeId> borrowed_;          // leased workers, and the node that says it has leased them
  std::vector<ActorId> unplaceable_yet_;                   // actors that none of the nodes known so far could run
  std::vector<std::pair<NodeId, wire::Message>> put_off_;  // messages that cannot be decided yet, and their senders
};

}  // namespace pharos::node
