#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/node/introduction.hpp>

#include "actors/call_paths.hpp"
#include "actors/incarnations.hpp"
#include "leases/far_leases.hpp"
#include "leases/lease_book.hpp"
#include "leases/task_leases.hpp"
#include "logs/logs.hpp"
#include "node/clients.hpp"
#include "node/far_nodes.hpp"
#include "node/questions.hpp"
#include "node/settings.hpp"
#include "node/site.hpp"
#include "store/store_service.hpp"
#include "users/inspections.hpp"
#include "users/user_questions.hpp"
#include "workers/hand_over_line.hpp"
#include "workers/job_output.hpp"
#include "workers/jobs.hpp"
#include "workers/memory_guard.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// The node of one machine: its jobs, each with a zygote (a process of the program, stopped before `main`, from which
/// workers are forked), their workers, leases of workers, and the sockets between callers and workers. Questions about
/// actors are passed on to the head.
/// The node builds the parts that do this, and passes messages and ends on to them (senders.hpp).
/// Failure: a request that a process may not send is refused with kUnsupported, one of a process without a job with
/// kFailedPrecondition; other such messages are ignored.
/// Owned by Membership. Everything runs on one strand, also the callbacks. The executor and the Host outlive it.
/// End: close() closes all connections, cancels the coroutines, and answers nobody; then the executor has to run what
/// is posted until closed() is true; then the daemon kills the processes that are left. Timers of the parts may still
/// be set, so the executor must run nothing after the destructor.
class Node final : public net::Peer::Owner, private Workers::Owner, private Jobs::Owner {
 public:
  using Settings = NodeSettings;
  using Tell = ToHead::Tell;
  using Queued = JobOutput::Queued;

  Node(async::Executor& executor, Host& host, const Settings& settings, Tell tell_head, Queued queued_to_head);
  ~Node() override;

  const Machine& machine() const { return site_.settings.machine; }
  /// Messages that a head does not send to a node are ignored.
  void on_head_message(wire::Message message);
  /// Another head has taken the place of the one that this node had joined. It is sent everything that it has to know.
  void return_to_head();
  /// The node has joined a head, or come back to one.
  void note_cluster(const wire::ClusterJoined& cluster) { jobs_.note_cluster(cluster.cpus); }
  /// Serves a connection whose other end has said what it is for: a worker for a caller there, objects or their claims,
  /// an executable, or a user's question. For a worker, the socket becomes the one between caller and worker. Closes
  /// the connection if it cannot be served, or if its purpose is another one.
  void serve_far(const Introduction& introduction, Fd socket);
  /// Answers a node that wants to pull an object: see StoreService::answer_pull().
  void answer_pull(const object_store::PullRequest& request, Host::TakePullAnswer then) {
    store_.answer_pull(request, std::move(then));
  }

  /// Takes the connection of a driver that has proved itself.
  std::shared_ptr<net::Peer> add_driver(Fd socket);
  /// Sets a callback that runs when this driver's connection has ended. It does not run after close().
  void when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then);
  /// The head elsewhere has answered a beat: see Incarnations::pass_on_beat().
  void pass_on_beat(const wire::Beat& beat) { incarnations_.pass_on_beat(beat); }
  /// Sets the callback that runs, after the answer, each time a user tells this node to end (EndNode).
  void when_told_to_end(std::function<void()> then) { end_ = std::move(then); }
  /// Asks the head to drain this node within that time, as a user does with DrainNode. Does not wait, and is not told
  /// whether the head does so.
  void leave(Duration grace);
  /// From here on every driver that registers a job is refused with this error.
  void refuse_jobs(Error why) { jobs_.refuse(std::move(why)); }

  /// A child of this process has ended, or an orphan that this process has inherited.
  void on_child_ended(pid_t pid, int status);
  void close();
  bool closed() const { return background_.size() == 0 && store_.closed(); }

  /// For tests: says what is still kept after all jobs have ended. Empty if nothing is.
  std::string leftovers() const;
  /// For tests, between two events: says what is given twice, or is neither free nor given. Empty if all is well.
  std::string check() const { return book_.check() + incarnations_.check(); }
  /// For tests: the incarnations that have a process here.
  std::vector<std::pair<ActorId, std::uint32_t>> incarnations() const;

 private:
  using Request = std::optional<std::uint64_t>;

  // Connections.
  void on_message(net::Peer& from, net::Parcel parcel, Request request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  bool on_caller_message(const Client& client, wire::Message& message, Request request);
  bool on_driver_message(const Client& client, wire::Message& message, Request request);
  bool on_worker_message(const Client& client, net::Parcel& parcel);
  void on_zygote_message(const Client& client, net::Parcel parcel);
  bool on_other_message(const Client& client, net::Parcel& parcel, std::uint64_t request);
  void on_caller_ended(const Client& caller) override;

  // Jobs and workers.
  void on_job_stops(JobId job) override { incarnations_.end_unbegun(job); }
  void on_job_ended(const std::shared_ptr<Job>& job) override;
  wire::JobRegistered registration_of(const Job& job, CallerId caller) const override;
  void on_worker_forking() override { memory_.watch(); }
  std::string why_kernel_killed() override { return memory_.why_kernel_killed(); }
  void on_worker_ended(const Worker& worker, const std::string& reason) override;

  void forget_if(const std::function<bool(const Client&)>& of);
  void carry_out(const scheduler::LeaseEffect& effect);
  void drain();
  void on_refused(const wire::Refused& refused);
  void tell_holders(const wire::IncarnationEnded& ended) const;
  std::vector<wire::Report> report() const;

  Site site_;
  Clients clients_;
  FarNodes far_nodes_;
  Questions questions_;
  Logs logs_;
  StoreService store_;
  JobOutput output_;
  Workers workers_;
  Jobs jobs_;
  LeaseBook book_;
  HandOverLine hand_overs_;
  TaskLeases task_leases_;
  FarLeases far_leases_;
  Incarnations incarnations_;
  CallPaths call_paths_;
  MemoryGuard memory_;
  Inspections inspections_;
  UserQuestions user_questions_;
  std::function<void()> end_ = [] {};

  async::AsyncGroup background_;
};

}  // namespace pharos::node
