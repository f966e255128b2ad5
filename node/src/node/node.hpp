#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/hand_overs.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/scheduler/remote_requests.hpp>

#include "daemon/machine.hpp"
#include "logs/logs.hpp"
#include "node/host.hpp"
#include "store/store_service.hpp"

namespace pharos::node {

/// The node of one machine: its jobs, each with a zygote (a process of the program, stopped before `main`, from which
/// workers are forked), their workers, leases of workers, and the sockets between callers and workers. Questions about
/// actors are passed on to the head.
/// Owned by Membership. Everything runs on one strand.
/// End: close(); then the executor has to run what is posted until closed() is true; then the daemon kills the
/// processes that are left.
class Node final : public net::Peer::Owner {
 public:
  struct Settings {
    NodeId id;
    std::string address;       ///< address of the node's Unix socket
    std::string head_address;  ///< empty: the head is in this process
    Machine machine;
    StoreService::Settings object_store;
    Logs::Settings logs{};
    double memory_threshold = 0.95;  ///< fraction of memory in use above which workers are killed
  };
  /// Sends a message to the head. Never calls the node from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;
  /// Returns how many bytes the head has not read.
  using Queued = async::UniqueFunction<std::size_t()>;

  Node(async::Executor& executor, Host& host, const Settings& settings, Tell tell_head, Queued queued_to_head);
  ~Node() override;

  const Machine& machine() const { return settings_.machine; }
  void on_head_message(wire::Message message);
  /// Another head has taken the place of the one that this node had joined. It is sent everything that it has to know.
  void return_to_head();
  /// The node has joined a head, or come back to one.
  void note_cluster(const wire::ClusterJoined& cluster) { cluster_cpus_ = cluster.cpus; }
  /// Serves a connection whose other end has said what it is for: a worker for a caller there, objects or their claims,
  /// an executable, or a user's question. For a worker, the socket becomes the one between caller and worker.
  void serve_far(const Introduction& introduction, Fd socket);
  /// Answers a node that wants to pull an object: see StoreService::answer_pull().
  void answer_pull(const object_store::PullRequest& request, Host::TakePullAnswer then) {
    store_.answer_pull(request, std::move(then));
  }

  /// Takes the connection of a driver that has proved itself.
  std::shared_ptr<net::Peer> add_driver(Fd socket);
  /// Sets a callback that runs when this driver's connection has ended.
  void when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then);
  /// The head elsewhere has answered a beat, which is passed on to exclusive actors: they end when they hear no beat
  /// for too long.
  void pass_on_beat(wire::Beat beat);
  /// Sets the callback that runs when a user tells this node to end (EndNode).
  void when_told_to_end(std::function<void()> then) { end_ = std::move(then); }
  /// Asks the head to drain this node within that time, as a user does with DrainNode.
  void leave(Duration grace);
  /// From here on every driver that registers a job is refused with this error.
  void refuse_jobs(Error why) { refusal_ = std::move(why); }

  /// A child of this process has ended, or an orphan that this process has inherited.
  void on_child_ended(pid_t pid, int status);
  void close();
  bool closed() const { return background_.size() == 0 && store_.closed(); }

  /// For tests: says what is still kept after all jobs have ended. Empty if nothing is.
  std::string leftovers() const;
  /// For tests, between two events: says what is given twice, or is neither free nor given. Empty if all is well.
  std::string check() const;
  /// For tests: the incarnations that have a process here.
  std::vector<std::pair<ActorId, std::uint32_t>> incarnations() const;

 private:
  struct Job;
  struct Worker;
  /// A connection whose other end has proved itself, and what it is for. It has no job until its driver registers one.
  struct Client {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<Job> job;
    std::shared_ptr<Worker> worker;  // null: this is the job's driver or zygote
    CallerId caller;                 // unset: this is the zygote
  };

  // Connections.
  std::shared_ptr<net::Peer> add_peer(Fd socket);
  std::shared_ptr<net::Peer> add_client(const std::shared_ptr<net::Link>& link);
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  bool on_caller_message(const Client& client, net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_driver_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_worker_message(const Client& client, net::Parcel& parcel);
  void on_zygote_message(Job& job, net::Parcel parcel);
  void end_caller(const Client& client);

  // Questions of users.
  bool on_question(const Client& client, wire::Message& message, std::uint64_t request);
  void list_own(const Client& client, const wire::ListRows& asked, std::uint64_t request);
  /// A table of the stacks of this node's processes, while it is filled.
  struct StackTable;
  static async::Async<void> list_stacks(Node* self, std::shared_ptr<net::Peer> from, wire::ListRows asked,
                                        std::uint64_t request);
  wire::Rows list_processes() const;
  static async::Async<void> look_at_next(Node* self, std::shared_ptr<StackTable> table);
  static async::Async<void> look_at(Node* self, std::shared_ptr<StackTable> table, std::size_t row);
  template <class Question>
  bool is_answered_here(const Client& client, Question& question, std::uint64_t request);
  static async::Async<void> pass_on(Node* self, std::shared_ptr<net::Peer> from, std::uint64_t request, NodeId to,
                                    wire::Message question);
  static async::Async<Result<net::Parcel>> ask_node(Node* self, NodeId node, wire::Message question);

  // Jobs and zygotes.
  static async::Async<void> register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                         std::uint64_t request);
  static async::Async<Result<void>> load_program(Node* self, std::shared_ptr<Job> job);
  static async::Async<Result<void>> start_zygote(Node* self, std::shared_ptr<Job> job);
  void drop_zygote(Job& job);
  static async::Async<void> restart_zygote(Node* self, std::shared_ptr<Job> job);
  wire::JobRegistered registration_of(const Job& job, CallerId caller) const;
  void end_driver(const std::shared_ptr<Job>& job);
  void end_job(const std::shared_ptr<Job>& job);

  // Jobs of drivers at other nodes, and their executables.
  void add_far_job(wire::AddJob add);
  static async::Async<void> load_far_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources);
  static async::Async<Result<void>> obtain_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources);
  static async::Async<Result<ProgramHere>> open_program(Node* self, std::shared_ptr<Job> job);
  void take_program(Job& job, ProgramHere here);
  static async::Async<Result<void>> fetch_program(Node* self, std::shared_ptr<Job> job, std::vector<NodeId> sources);
  static async::Async<Result<void>> fetch_some(Node* self, std::shared_ptr<Job> job, NodeId from,
                                               std::shared_ptr<ArrivingProgram> into);
  void serve_program(JobId job, Fd socket);

  // Workers.
  static async::Async<Result<std::shared_ptr<Worker>>> start_worker(Node* self, std::shared_ptr<Job> job, ActorId actor,
                                                                    std::string label, std::uint32_t incarnation,
                                                                    std::vector<std::string> gpus);
  static async::Async<Result<std::shared_ptr<Worker>>> fork_worker(Node* self, std::shared_ptr<Job> job, ActorId actor,
                                                                   std::string label, std::uint32_t incarnation,
                                                                   std::vector<std::string> gpus,
                                                                   async::Deadline deadline);
  static async::Async<void> conclude_worker(Node* self, std::shared_ptr<Worker> worker);
  static async::Async<void> stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request);
  static async::Async<void> stop_here(Node* self, JobId job);
  static async::Async<void> stop_workers(Node* self, std::shared_ptr<Job> job);
  /// An answer to Inspect, while the workers and the head are asked.
  struct Inspection;
  static async::Async<void> inspect(Node* self, Client client, std::uint64_t request);
  wire::InspectedStore inspect_store() const;
  void add_far_workers(const Job& job, std::vector<wire::InspectedWorker>& to) const;
  void note_what_actors_wait_for(const Job& job, std::vector<wire::InspectedWorker>& in) const;
  static async::Async<void> inspect_worker(std::shared_ptr<Inspection> inspection, std::shared_ptr<Worker> worker,
                                           async::Deadline deadline);
  /// `moves`: the next incarnation of its actor starts elsewhere.
  void end_worker(const std::shared_ptr<Worker>& worker, Duration grace = {}, bool moves = false);
  /// The head drains this node: see Head::drain().
  void drain();
  void kill_worker(Worker& worker);
  static void process_ended(Worker& worker, int status);
  void know_process(Worker& worker, pid_t pid, Fd handle);
  std::shared_ptr<Worker> find_worker(WorkerId worker) const;
  std::shared_ptr<Worker> find_incarnation(ActorId actor, std::uint32_t incarnation) const;

  // Sockets that are handed over to workers.
  struct Served {
    wire::ServeCaller serve;
    Fd socket;
  };
  /// Makes a socket for a worker when the turn of this hand-over has come. nullopt: no caller wants it any more.
  /// `worker` is null if the worker is gone.
  using MakeServed = async::UniqueFunction<std::optional<Served>(const std::shared_ptr<Worker>& worker)>;
  bool hand_over(WorkerId worker, MakeServed make);
  void begin_hand_over(std::uint64_t number);
  void end_hand_over(WorkerId worker);
  void begin_hand_overs(const std::vector<std::uint64_t>& numbers);
  void look_for_slow_workers();
  static async::Async<void> serve(Node* self, std::shared_ptr<Worker> worker, Served served);
  std::optional<Served> connect(const Worker& worker, const Client& user, std::uint64_t request,
                                const wire::ActorAlive& alive, wire::WorkerResources holding);
  // Memory.
  void watch_memory_if_needed();
  static async::Async<void> watch_memory(Node* self);
  bool look_at_memory();
  bool memory_is_short() const;
  static async::Async<std::shared_ptr<Worker>> find_victim(Node* self);
  static async::Async<void> ask_what_runs(Node* self, std::shared_ptr<Inspection> inspection);
  void kill_for_memory(Worker& worker);
  static async::Async<bool> wait_until_gone(Node* self, std::shared_ptr<Worker> worker);
  void note_if_kernel_killed(Worker& worker);

  // Actors.
  using BundleKey = std::pair<GroupId, std::uint32_t>;
  bool ask_head(const Client& client, wire::Message& message, std::optional<std::uint64_t> request);
  void on_actor_alive(const wire::ActorAlive& alive);
  static async::Async<void> reach_actor(Node* self, wire::ActorAlive alive);
  void ask_again(const wire::ActorAlive& alive, const Error& why);
  static async::Async<void> start_incarnation(Node* self, scheduler::ReservationId reservation);
  void reserve(wire::StartIncarnation start);
  void begin(scheduler::ReservationId reservation);
  void hold_bundle(const wire::HoldBundle& hold);
  void note_held(const scheduler::Reserved& reserved);
  void release_bundle(const BundleKey& key);
  void release_unused();
  void end_incarnation(const wire::EndIncarnation& end);
  void incarnation_ended(ActorId actor, std::uint32_t incarnation, scheduler::ReservationId reservation,
                         const std::string& reason, bool out_of_memory = false);

  // Output.
  bool takes_output(const Job& job);
  void send_output(Job& job, wire::Output output);
  void forward_output(const wire::Output& output);
  static void note_shown(Job& job);

  // Leases.
  bool on_far_lease_message(wire::Message& message);
  void take_back(const wire::ReturnLease& returned, CallerId lessee);
  void end_far_lessee(CallerId caller);
  void lease_to_far(const wire::LeaseWorker& lease);
  static async::Async<void> reach_leased(Node* self, wire::LeaseGranted granted);
  void serve_far_caller(const Introduction& introduction, Fd socket);
  static async::Async<Result<Fd>> connect_far(Node* self, NodeId node, std::string address, Introduction introduction);
  static async::Async<Result<std::string>> find_node(Node* self, NodeId node);
  bool is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const;
  bool on_lease_request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request);
  static async::Async<void> start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request,
                                         std::vector<std::string> gpus);
  static async::Async<void> end_idle_workers(Node* self);
  void apply(const scheduler::LeaseEffects& effects);
  void apply(const scheduler::LeaseEffect& effect);
  void grant(const scheduler::Grant& grant);
  void recall_later();
  void recall(const scheduler::Recall& recalled);
  void recall_far(const wire::RecallLeases& recalled);
  void tell_load_later();
  void tell_load();
  wire::NodeLoad load() const;
  void wait_for_room(scheduler::LeaseRequestId request, const scheduler::Demand& demand);
  void look_elsewhere();
  void begin_rounds();
  bool take_from_elsewhere(const wire::LeaseGranted& granted);
  bool leaves_line(scheduler::LeaseRequestId request);
  std::vector<std::string> names_of(const std::vector<scheduler::GpuShare>& gpus) const;

  async::Executor& executor_;
  Host& host_;
  const Settings settings_;
  Tell tell_head_;
  Queued queued_to_head_;
  std::uint32_t cluster_cpus_ = 0;
  wire::Beat last_beat_;  // the last beat that the head has answered
  std::optional<Error> refusal_;
  std::function<void()> end_;

  std::unordered_map<const net::Peer*, Client> clients_;
  std::unordered_map<const net::Peer*, std::function<void()>> when_gone_;
  std::unordered_map<JobId, std::shared_ptr<Job>> jobs_;
  std::unordered_map<WorkerId, std::shared_ptr<Worker>> workers_;
  std::map<wire::BuildId, std::vector<async::Completion<void>>> coming_programs_;  // and jobs that wait for them

  /// A request of a caller: for a lease, or a question that was passed on to the head.
  struct Asked {
    Client client;                           // without a peer: a caller of another node, for which the head asks
    std::optional<std::uint64_t> request;    // number for the answer, the head's for its own; nullopt: nobody waits
    wire::Amounts amounts{};                 // resources of a lease
    wire::Message question = wire::Done{};   // the question to the head
    bool reaching = false;                   // the head has answered, and the node that it named is being reached
    WorkerId granted{};                      // the leased worker that is being reached
    scheduler::LeaseRequestId waits_here{};  // the request that waits here while the head looks for room elsewhere
    std::optional<TimePoint> asked_again{};  // when the actor could not be reached for the first time
    TimePoint asked_at{};                    // when the head was asked again for the last time
  };
  /// Forgets the questions of clients that do not wait for answers any more.
  void forget_questions(const std::function<bool(const Client&)>& of);
  void answer(const Asked& asked, const wire::Message& message);
  void refuse(const Asked& asked, Error why);

  // State that another head has to be told.
  void tell_head(wire::Message message);
  void note_holds(CallerId caller, const wire::Message& message);
  void note_found(const Asked& asked, ActorId found);
  void forget_undone(const wire::Message& message);
  void change_hold(CallerId caller, ActorId actor, std::int64_t more);
  bool holds(CallerId caller, ActorId actor) const;
  void forget_holds(CallerId caller);
  void tell_holders(const wire::IncarnationEnded& ended);
  std::vector<wire::Report> report() const;

  void hand_over_actor(WorkerId worker, const wire::ActorAlive& alive, Asked asked);
  void hand_over_leased(const std::shared_ptr<Worker>& worker, const Asked& asked);

  /// An incarnation that is being started, or waits for resources that tasks still use.
  struct Starting {
    wire::StartIncarnation start;
    std::optional<wire::EndIncarnation> end;  // set if it is to end as soon as it has started
    bool begun = false;                       // it has its resources
  };
  /// A bundle of a placement group. Its actors use parts of its reservation.
  struct Bundle {
    scheduler::ReservationId reservation;
    bool held = false;
    std::vector<scheduler::ReservationId> starting{};  // incarnations that start once the bundle is held
  };
  std::map<BundleKey, Bundle> bundles_;
  std::multimap<BundleKey, scheduler::ReservationId> leaving_;  // released bundles that a process still uses
  scheduler::Leases leases_;
  std::deque<scheduler::LeaseEffect> lease_effects_;  // effects that are still to be applied
  bool applies_ = false;
  std::unordered_map<scheduler::LeaseRequestId, Asked> lease_requests_;
  struct HandOver {
    WorkerId worker;
    MakeServed make;
  };
  scheduler::HandOvers hand_overs_;
  std::unordered_map<std::uint64_t, HandOver> waiting_hand_overs_;
  bool looks_for_slow_workers_ = false;
  bool ends_idle_workers_ = false;
  std::optional<wire::NodeLoad> told_load_ = wire::NodeLoad{};  // nullopt: the head may count something else
  std::size_t told_waiting_ = 0;
  std::optional<TimePoint> tells_load_at_{};
  bool drains_ = false;
  std::optional<TimePoint> recalls_at_;  // when to look next whether leases are to be recalled
  int quiet_looks_ = 0;                  // such looks in a row that recalled nothing, since the last change
  scheduler::RemoteRequests remote_requests_;
  bool looks_elsewhere_ = false;           // a timer for look_elsewhere() is set
  bool has_rounds_ = false;                // a timer for the next round of remote requests is set
  std::map<std::uint64_t, Asked> asked_;   // questions to the head, by number
  std::deque<wire::Message> unconfirmed_;  // messages that another head is told again, oldest first
  std::uint64_t confirmed_ = 0;            // how many of these messages the present head has confirmed
  std::unordered_map<CallerId, std::unordered_map<ActorId, std::int64_t>> holds_;
  std::unordered_set<ActorId> promised_;  // actors that were promised and not asked to start yet
  /// A lease of another node's worker.
  struct FarLease {
    Client client;  // the caller that has leased it
    NodeId node;
    std::string address;
    wire::Amounts amounts;
  };
  std::unordered_map<WorkerId, FarLease> far_leases_;
  std::unordered_map<scheduler::ReservationId, Starting> starting_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Inspection>> inspections_;
  struct NodeQuestion {
    NodeId node;
    async::Completion<std::string> found;
  };
  std::unordered_map<std::uint64_t, NodeQuestion> node_questions_;  // questions to the head, by number
  std::uint64_t last_number_ = 0;
  std::size_t passed_on_ = 0;  // questions that other nodes are asked at the moment
  Logs logs_;
  bool watches_memory_ = false;
  std::optional<Host::MemoryUse> memory_;   // memory use at the last look
  std::optional<TimePoint> kernel_killed_;  // when the kernel was last seen to have killed a process for memory
  StoreService store_;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
