#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/leases.hpp>

#include "store_service.hpp"
#include "worker_output.hpp"

namespace pharos::node {

/// One machine's node: its jobs, each with a zygote, and their workers.
/// Everything runs on the one thread that polls the reactor.
class Node final : public net::Peer::Owner {
 public:
  Node(process::Kept kept, const DaemonOptions& options);
  ~Node() override;

  /// Serves until the first driver, or the keeper, is gone. Returns the exit status.
  int run(Fd driver);

 private:
  struct Job;
  struct Worker;
  /// What a connection is, once it has proved itself and said or been told what it is for.
  struct Client {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<Job> job;
    std::shared_ptr<Worker> worker;  // null: the job's driver or zygote
    CallerId caller;                 // none: the zygote
  };
  class Reaper;
  class KeeperWatcher;
  class Listener;

  // Start and end of the node.
  Result<void> set_up();
  Result<void> listen_at(const std::string& address);
  void reap();
  void shut_down();

  // Connections.
  static async::Async<void> serve_connection(Node* self, Fd socket, bool first_driver);
  net::Identity identity() const { return {net::Role::kNode, id_.value()}; }
  std::optional<net::Key> key_for(net::Identity peer) const;
  std::shared_ptr<net::Peer> add_peer(Fd socket);
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  bool on_caller_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_driver_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_worker_message(const Client& client, net::Parcel& parcel);
  void on_zygote_message(Job& job, net::Parcel parcel);

  // Jobs and zygotes.
  static async::Async<void> register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                         std::uint64_t request, bool first);
  static async::Async<Result<void>> start_zygote(Node* self, std::shared_ptr<Job> job);
  static async::Async<void> restart_zygote(Node* self, std::shared_ptr<Job> job);
  wire::JobRegistered registration_of(const Job& job, CallerId caller) const;
  void end_job(JobId job);

  // Workers.
  static async::Async<Result<std::shared_ptr<Worker>>> start_worker(Node* self, std::shared_ptr<Job> job, ActorId actor,
                                                                    std::string label, std::uint32_t incarnation);
  static async::Async<Result<std::shared_ptr<Worker>>> fork_worker(Node* self, std::shared_ptr<Job> job, ActorId actor,
                                                                   std::string label, std::uint32_t incarnation,
                                                                   async::Deadline deadline);
  static async::Async<void> start_incarnation(Node* self, ActorId actor, std::uint32_t incarnation);
  static async::Async<void> start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request);
  static async::Async<void> conclude_worker(Node* self, std::shared_ptr<Worker> worker);
  static async::Async<void> stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request);
  void end_worker(const std::shared_ptr<Worker>& worker);
  void know_process(Worker& worker, pid_t pid, Fd handle);
  void hand_over(Worker& worker, const Client& user, std::uint64_t request);
  bool on_actor_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  void reconnect(Worker& worker);
  scheduler::ActorRequestId expect_actor(const Client& client, std::uint64_t request);
  void apply(const scheduler::ActorEffects& effects);
  void end_incarnation(const scheduler::EndIncarnation& end);
  void tick_actors_at(TimePoint when);
  void kill_worker(Worker& worker);
  void apply(const scheduler::LeaseEffects& effects);
  static async::Async<void> end_idle_workers(Node* self);
  void end_caller(const Client& client);
  std::shared_ptr<Worker> find_worker(WorkerId worker) const;
  std::shared_ptr<Worker> find_incarnation(ActorId actor, std::uint32_t incarnation) const;

  const process::Kept kept_;
  const DaemonOptions options_;
  const NodeId id_;
  net::Key token_{};
  std::optional<Error> set_up_failure_;
  bool ending_ = false;
  int status_ = 0;

  net::Reactor reactor_;
  Fd child_event_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::size_t unproven_ = 0;  // connections in their handshake

  std::unordered_map<const net::Peer*, Client> clients_;
  std::unordered_map<JobId, std::shared_ptr<Job>> jobs_;
  std::unordered_map<WorkerId, std::shared_ptr<Worker>> workers_;
  JobId first_job_;
  std::shared_ptr<net::Peer> first_driver_;
  std::uint64_t last_id_ = 0;

  StoreService store_;

  scheduler::Leases leases_;
  struct LeaseRequest {
    Client client;
    std::uint64_t request;
  };
  std::unordered_map<scheduler::LeaseRequestId, LeaseRequest> lease_requests_;
  bool ends_idle_workers_ = false;

  scheduler::ActorTable actors_;
  struct ActorRequest {
    Client client;
    std::uint64_t request;
  };
  std::unordered_map<scheduler::ActorRequestId, ActorRequest> actor_requests_;
  struct Making {
    std::shared_ptr<Job> job;
    wire::StartActor start;
    std::optional<scheduler::EndIncarnation> end;  // wanted while its process was being started
  };
  std::unordered_map<ActorId, Making> makings_;  // how to make those that the table knows
  TimePoint next_tick_ = TimePoint::max();

  async::AsyncGroup background_;
};

}  // namespace pharos::node
