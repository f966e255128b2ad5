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

#include "records.hpp"

namespace pharos::node {

/// The head of a cluster: its nodes, its jobs, the life of its actors and their names. Never on the path of a call.
/// What must outlive it is in Records: nodes, jobs, actors and groups. Who holds what, who waits for what and who has
/// leased what, nodes know, and report it to a head that has started again.
/// Head and nodes tell each other control messages (runtime/wire), over whatever lies between them; that which is in
/// the head's own process is a node like the others.
/// Runs on one strand, and so does whatever it is given. Does not block.
class Head {
 public:
  /// Tells a node something; never calls back from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;

  /// `own`: the node in the head's own process. Without `records` nothing outlives it.
  explicit Head(async::Executor& executor, NodeId own = {}, Records* records = nullptr);
  Head(Head&&) = delete;
  /// Goes on where another head stopped, before all else. What cannot be is set aside.
  /// Its nodes have kReturnTime to come back, each by return_node() and what it reports; then they are lost. Until all
  /// are back or lost, nobody is told that something can never be, and no actor ends because nobody holds it.
  void restore(Records::Found found);

  struct NodeDescription {
    std::string address;  ///< for other nodes; empty: the head's own
    scheduler::Resources total;
    scheduler::Labels labels{};
  };
  /// The first that it is told is ClusterJoined.
  void add_node(NodeId node, const NodeDescription& description, Tell tell);
  bool knows(NodeId node) const { return nodes_.contains(node); }
  /// A node of the head before this one, which has not come back yet.
  bool expects(NodeId node) const { return expected_.contains(node); }
  /// It has come back, and has not reported all.
  bool awaits_report_of(NodeId node) const { return reporting_.contains(node); }
  void return_node(NodeId node, const NodeDescription& description, Tell tell);
  /// Its connection has ended: whatever was there is gone.
  /// `was_silent`: for so long that exclusive actors have ended there.
  void remove_node(NodeId node, bool was_silent = false);
  /// Nothing comes from it, perhaps because of this machine's link. What it has is not lost, and questions about where
  /// it or its actors are reached wait until it is back or lost. It is told what there is to tell.
  void node_is_away(NodeId node) { away_.insert(node); }
  void node_is_back(NodeId node);
  void on_message(NodeId from, wire::Message message);
  /// For tests: what it still keeps when all jobs have ended. Empty: nothing.
  std::string leftovers() const;
  /// For tests, between two events: what is given twice, or to nobody. Empty: nothing.
  std::string check() const;
  /// For tests: what its records have to hold now. Of what is written once, the key alone. Nothing during a recovery.
  std::optional<std::map<std::string, std::optional<wire::Message>>> recorded() const;

 private:
  /// Whatever its node does, the process of an exclusive actor has ended by itself then.
  static constexpr Duration kExclusiveTime = std::chrono::seconds{9};

  struct Node {
    std::string address;
    Tell tell;
    std::uint64_t said = 0;       // of what it would say again
    std::uint64_t confirmed = 0;  // of that
    std::vector<wire::WaitingTasks> waiting{};
  };
  struct Job {
    NodeId node;  // its driver's; none: that has ended, and detached actors go on
    wire::RegisterJob program;
    std::set<NodeId> known_at;
    std::optional<std::set<NodeId>> stopping;  // its end has begun: nodes that have not stopped it yet
  };
  /// An incarnation whose process is, or is being started.
  struct Running {
    std::uint32_t incarnation = 0;
    NodeId node;
    std::vector<scheduler::ActorRequestId> reconnecting;  // of callers that have lost their connection to it
    bool untold = false;                                  // its node may not know: it has not come back yet
  };
  struct CallerPlace {
    NodeId node;
    JobId job;
  };
  struct Request {
    NodeId node;
    wire::Asker asker;
  };
  /// A worker of one node for a caller of another: asked for, or given.
  struct Lease {
    NodeId at;
    NodeId asked_from;  // none: that one was lost
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
  /// What is in use of what is asked for, by job and demand, so that it is looked up once for all that wait for it.
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
  /// Of a node, in the order of the actors' numbers.
  std::vector<std::pair<ActorId, std::uint32_t>> running_at(NodeId node) const;
  Running* find_running(ActorId actor, std::uint32_t incarnation);
  const Running* find_running(ActorId actor, std::uint32_t incarnation) const;
  void lose_node(NodeId node, const std::string& reason, bool was_silent = false);
  void pass_on_output(const wire::Output& output);
  void tell_holders(ActorId actor, std::uint32_t incarnation, const std::string& reason);

  // Nodes that are to go.
  Result<void> drain(const wire::DrainNode& drain);
  void begin_drain(const wire::DrainNode& drain);
  void drain_later();
  void drain_more(NodeId node, TimePoint limit);
  bool may_be_asked_for_program(NodeId node) const;

  // What is written down (head_records.cpp).
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
  Records* const records_;                                // null: nothing is written down
  std::vector<std::pair<NodeId, wire::Message>> outbox_;  // of the event that is under way
  std::unordered_set<ActorId> moved_;                     // since the last event: their places, or how they ended
  std::unordered_set<GroupId> moved_groups_;
  std::unordered_set<GroupId> removed_groups_;  // of which actors have something still

  std::unordered_map<NodeId, Node> nodes_;
  std::unordered_map<CallerId, CallerPlace> callers_;  // that have asked something
  std::unordered_map<JobId, Job> jobs_;
  std::unordered_set<JobId> maybe_over_;  // without a driver, and one of their actors has ended
  std::map<NodeId, TimePoint> draining_;  // until when
  std::set<NodeId> away_;
  std::multimap<NodeId, std::pair<NodeId, wire::FindNode>> look_for_away_;  // by the node that is looked for: who asks

  scheduler::ActorTable actors_;
  std::unordered_map<ActorId, wire::StartActor> makings_;  // how to make those that live or will again
  scheduler::Placement placement_;
  struct Group {
    wire::Asker asker;
    NodeId asked_from;
    std::string label;
    Strategy strategy;
    std::vector<scheduler::Demand> bundles;
    std::vector<NodeId> nodes;                 // of each bundle, as far as they have one
    std::unordered_set<std::uint32_t> unheld;  // that their nodes have not set aside yet
    bool answered = false;
    std::unordered_set<std::uint32_t> restored{};  // whose nodes have not said whether they are there
  };
  void answer_if_held(Group& group);
  std::unordered_map<GroupId, Group> groups_;
  std::unordered_map<ActorId, std::uint32_t> unplaced_;            // incarnations that wait for resources
  std::unordered_map<ActorId, wire::IncarnationEnded> last_ends_;  // of those that were restarted
  std::unordered_map<ActorId, Running> running_;
  std::unordered_map<NodeId, std::unordered_set<ActorId>> running_at_;
  std::unordered_map<scheduler::ActorRequestId, Request> requests_;
  std::unordered_map<ActorId, std::vector<std::pair<NodeId, wire::Message>>> early_;  // about actors not heard of yet
  std::unordered_map<std::uint64_t, Lease> lease_requests_;                           // by number
  std::unordered_map<WorkerId, Lease> leases_;
  std::uint64_t last_request_;
  TimePoint next_tick_ = TimePoint::max();

  std::size_t set_aside_ = 0;  // of its records, by this head and those before it
  std::shared_ptr<char> alive_ = std::make_shared<char>();

  // Until all is as it was.
  bool recovering_ = false;
  static constexpr Duration kReturnTime = std::chrono::seconds{10};  // to a head that has started again
  struct Expected {
    std::string address;  // where it was reached
    TimePoint until;
  };
  std::unordered_map<NodeId, Expected> expected_;
  std::unordered_map<NodeId, wire::Report> reporting_;  // back, and not all of it told
  std::unordered_map<WorkerId, NodeId> borrowed_;       // by which nodes
  std::vector<ActorId> unplaceable_yet_;
  std::vector<std::pair<NodeId, wire::Message>> put_off_;  // what cannot be decided yet
};

}  // namespace pharos::node
