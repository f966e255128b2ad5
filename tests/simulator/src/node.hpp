#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/leases.hpp>

#include "process.hpp"

namespace pharos::simulator {

/// What a node asks of its machine.
class Spawner {
 public:
  virtual ~Spawner() = default;
  /// Starts a worker's process, some time from now, with that end of its connection to the node. on_worker_ended() says
  /// when it has ended, or could not be started.
  virtual void spawn_worker(WorkerId worker, Fd control) = 0;
  virtual void kill_worker(WorkerId worker) = 0;
};

/// The node of a simulated machine: the shipped cores, leases and actors, in a shell that speaks the shipped messages.
class Node final : public Program, public net::Peer::Owner {
 public:
  Node(Process& process, Spawner& spawner, std::uint32_t cpus);
  ~Node() override;

  /// A driver's connection.
  void accept(Fd socket);
  /// Its process is gone, for this reason.
  void on_worker_ended(WorkerId worker, std::string reason);

  void end() override;
  std::shared_ptr<detail::Caller> caller() override { return nullptr; }

  const scheduler::Leases& leases() const { return leases_; }
  const scheduler::ActorTable& actors() const { return actors_; }
  std::size_t workers() const { return workers_.size(); }
  std::size_t jobs() const { return jobs_.size(); }

 private:
  struct Job {
    JobId id;
    CallerId caller;
    std::shared_ptr<net::Peer> driver;
    bool stopping = false;
    bool ended = false;
  };
  struct Worker;
  struct Client {
    std::shared_ptr<net::Peer> peer;
    std::shared_ptr<Job> job;
    std::shared_ptr<Worker> worker;  // null: a driver
    CallerId caller;
  };
  struct Worker {
    WorkerId id;
    std::shared_ptr<Job> job;
    ActorId actor;
    std::uint32_t incarnation = 0;
    std::shared_ptr<net::Peer> control;
    Client user;
    std::vector<scheduler::ActorRequestId> reconnecting;
    bool ready = false;  // has been told about its job
    bool connected = true;
    std::optional<std::string> ended;  // its process is gone
  };
  struct Asked {
    Client client;
    std::uint64_t request;
  };

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  std::shared_ptr<net::Peer> add_peer(Fd socket);
  void register_job(const std::shared_ptr<net::Peer>& driver, std::uint64_t request);
  void end_job(Job& job);
  void stop_job(const std::shared_ptr<Job>& job, std::uint64_t request);
  static async::Async<void> stop_when_idle(Node* self, std::shared_ptr<Job> job, std::uint64_t request);
  bool on_caller_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_actor_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  void on_worker_message(const Client& client, const net::Parcel& parcel);
  void end_caller(const Client& client);

  std::shared_ptr<Worker> start_worker(const std::shared_ptr<Job>& job, ActorId actor, std::uint32_t incarnation);
  void conclude(const std::shared_ptr<Worker>& worker);
  void end_worker(const std::shared_ptr<Worker>& worker);
  void hand_over(Worker& worker, const Client& user, std::uint64_t request);
  void reconnect(Worker& worker);
  scheduler::ActorRequestId expect_actor(const Client& client, std::uint64_t request);
  void apply(const scheduler::ActorEffects& effects);
  void apply(const scheduler::LeaseEffects& effects);
  void tick_at(TimePoint when);
  void tick_leases();
  std::shared_ptr<Worker> find_worker(WorkerId worker) const;
  std::shared_ptr<Worker> find_incarnation(ActorId actor, std::uint32_t incarnation) const;

  Process& process_;
  Spawner& spawner_;
  async::Executor& executor_;
  const NodeId id_;
  std::map<const net::Peer*, Client> clients_;  // looked up, never walked
  std::map<JobId, std::shared_ptr<Job>> jobs_;
  std::map<WorkerId, std::shared_ptr<Worker>> workers_;
  std::map<scheduler::LeaseRequestId, std::shared_ptr<Worker>> starting_;
  std::uint64_t last_id_ = 0;
  const std::uint32_t cpus_;
  scheduler::Leases leases_;
  std::map<scheduler::LeaseRequestId, Asked> lease_requests_;
  scheduler::ActorTable actors_;
  std::map<scheduler::ActorRequestId, Asked> actor_requests_;
  struct Making {
    std::shared_ptr<Job> job;
    wire::StartActor start;
  };
  std::map<ActorId, Making> makings_;
  TimePoint next_tick_ = TimePoint::max();
  bool ticks_leases_ = false;
  async::AsyncGroup background_;
};

}  // namespace pharos::simulator
