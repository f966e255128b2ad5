#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/scheduler/leases.hpp>

#include "store_service.hpp"
#include "worker_output.hpp"

namespace pharos::node {

/// One machine's node: its jobs, each with a zygote, and their workers. What concerns actors as such it passes on to
/// the head.
/// Owned by the daemon. Everything runs on the one thread that polls the reactor.
/// End: close(), then the daemon kills the processes that are left.
class Node final : public net::Peer::Owner {
 public:
  struct Settings {
    NodeId id;
    net::Key token{};     ///< the cluster's
    std::string address;  ///< where its Unix socket is
    std::uint32_t cpus = 0;
    ByteCount object_store{};  ///< 0: as much as the machine has to spare
  };
  /// Never calls back from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;

  Node(net::Reactor& reactor, const Settings& settings, Tell tell_head);
  ~Node() override;

  void on_head_message(wire::Message message);

  /// A driver that has proved itself.
  std::shared_ptr<net::Peer> add_driver(Fd socket);
  /// Runs when this driver's connection has ended.
  void when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then);
  /// Why this node takes in no job.
  void refuse_jobs(Error why) { refusal_ = std::move(why); }

  /// Children have ended.
  void reap();
  void close();

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

  // Connections.
  net::Identity identity() const { return {net::Role::kNode, settings_.id.value()}; }
  std::shared_ptr<net::Peer> add_peer(Fd socket);
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  bool on_caller_message(const Client& client, net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_driver_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request);
  bool on_worker_message(const Client& client, net::Parcel& parcel);
  void on_zygote_message(Job& job, net::Parcel parcel);
  void end_caller(const Client& client);

  // Jobs and zygotes.
  static async::Async<void> register_job(Node* self, std::shared_ptr<net::Peer> driver, net::Parcel parcel,
                                         std::uint64_t request);
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
  static async::Async<void> conclude_worker(Node* self, std::shared_ptr<Worker> worker);
  static async::Async<void> stop_job(Node* self, std::shared_ptr<Job> job, std::uint64_t request);
  /// An answer to Inspect, while workers are asked.
  struct Inspection;
  static async::Async<void> inspect(Node* self, Client client, std::uint64_t request);
  static async::Async<void> inspect_worker(std::shared_ptr<Inspection> inspection, std::shared_ptr<Worker> worker,
                                           async::Deadline deadline);
  void end_worker(const std::shared_ptr<Worker>& worker);
  void kill_worker(Worker& worker);
  void know_process(Worker& worker, pid_t pid, Fd handle);
  void hand_over(Worker& worker, const Client& user, std::uint64_t request, const wire::ActorAlive& alive);
  std::shared_ptr<Worker> find_worker(WorkerId worker) const;
  std::shared_ptr<Worker> find_incarnation(ActorId actor, std::uint32_t incarnation) const;

  // Actors.
  bool ask_head(const Client& client, wire::Message& message, std::optional<std::uint64_t> request);
  void on_actor_alive(const wire::ActorAlive& alive);
  static async::Async<void> start_incarnation(Node* self, wire::StartIncarnation start);
  void end_incarnation(const wire::EndIncarnation& end);

  // Leases.
  static async::Async<void> start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request);
  static async::Async<void> end_idle_workers(Node* self);
  void apply(const scheduler::LeaseEffects& effects);

  net::Reactor& reactor_;
  const Settings settings_;
  Tell tell_head_;
  std::optional<Error> refusal_;

  std::unordered_map<const net::Peer*, Client> clients_;
  std::unordered_map<const net::Peer*, std::function<void()>> when_gone_;
  std::unordered_map<JobId, std::shared_ptr<Job>> jobs_;
  std::unordered_map<WorkerId, std::shared_ptr<Worker>> workers_;

  StoreService store_;

  /// A caller's request: for a worker, or one that the head was asked to answer.
  struct Asked {
    Client client;
    std::uint64_t request;
  };
  scheduler::Leases leases_;
  std::unordered_map<scheduler::LeaseRequestId, Asked> lease_requests_;
  bool ends_idle_workers_ = false;
  std::unordered_map<std::uint64_t, Asked> asked_;                             // the head, by number
  std::unordered_map<ActorId, std::optional<wire::EndIncarnation>> starting_;  // and the end that is wanted already
  std::unordered_map<std::uint64_t, std::shared_ptr<Inspection>> inspections_;
  std::uint64_t last_number_ = 0;

  async::AsyncGroup background_;
};

}  // namespace pharos::node
