#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "logs/logs.hpp"
#include "node/clients.hpp"
#include "node/site.hpp"
#include "workers/job_output.hpp"
#include "workers/worker.hpp"

namespace pharos::node {

/// The workers of a node: forks of the zygotes of its jobs. A worker is here from the request to fork it until its end
/// has been reported, once, by Owner::on_worker_ended().
/// Owned by Node; on its strand. The coroutines of this class run in the node's background group. Events of unknown
/// workers are ignored.
/// End: the destructor kills no worker. The end of a worker that is still connected when the node closes is not
/// reported; the daemon kills the worker's process.
class Workers {
 public:
  /// What workers need of the rest of the node. Called on the strand. Implemented by Node.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The first message to a worker.
    virtual wire::JobRegistered registration_of(const Job& job, CallerId caller) const = 0;
    /// A worker is about to use memory.
    virtual void on_worker_forking() = 0;
    /// A worker was killed by SIGKILL, but not by this node. Returns the reason if the kernel has killed it for memory,
    /// else "".
    virtual std::string why_kernel_killed() = 0;
    /// The worker is gone, and forgotten here. If its life is kFailed, the worker was never ready: then the caller of
    /// start() reports the end of the incarnation.
    virtual void on_worker_ended(const Worker& worker, const std::string& reason) = 0;
  };

  Workers(Site& site, Clients& clients, JobOutput& output, Logs& logs, Owner& owner)
      : site_{site}, clients_{clients}, output_{output}, logs_{logs}, owner_{owner} {}

  /// Starts a worker within 30 s, which begin when the executable is here, as a fork of this zygote of the job. Waits
  /// for the zygote if it is being loaded or started again. If the worker cannot be started, the error is kUnavailable,
  /// kWorkerDied, kRuntimeStopped, kCancelled (the node closes), an error of the system, or the error with which the
  /// program is broken. The owner still hears the end of a process that was forked in vain: see
  /// Owner::on_worker_ended().
  async::Async<Result<std::shared_ptr<Worker>>> start(std::shared_ptr<Job> job, std::shared_ptr<Zygote> zygote,
                                                      ActorId actor, std::string label, std::uint32_t incarnation,
                                                      std::vector<std::string> gpus);
  /// Tells a worker to end. The running call of an actor may finish within `grace`. With a `grace`, a worker that runs
  /// tasks gives back the tasks that it has not begun, and lives on: a second end() without `grace` must follow when
  /// the worker's lease is returned. A worker that lives longer than `grace` plus kStopTime is killed. A worker that
  /// has not proved itself is killed at once. `moves`: the next incarnation of the actor starts elsewhere.
  void end(const std::shared_ptr<Worker>& worker, Duration grace = {}, bool moves = false);
  /// Kills a worker and its process group, at once or as soon as its process is known. Does not wait.
  void kill(Worker& worker);
  void kill_all(const Job& job);
  /// Tells the workers of a job to end, and returns them.
  std::vector<std::shared_ptr<Worker>> end_all(const Job& job);
  /// Waits until the ends of these workers, which were told to end, have been reported, for about kStopTime in all.
  /// Logs those that do not end.
  async::Async<void> wait_until_ended(std::vector<std::shared_ptr<Worker>> workers);

  // ---- Events

  /// The process of a worker is known. `handle` is its pidfd.
  void on_forked(Worker& worker, pid_t pid, Fd handle);
  void on_forked(const wire::WorkerForked& forked, Fd handle);
  void on_reaped(const wire::WorkerReaped& reaped);
  void on_crashed(const wire::WorkerCrashed& crashed);
  /// A child of this process has ended: an orphan of a zygote that is gone may be a worker.
  void on_child_ended(pid_t pid, int status);
  /// A zygote of the job has ended, so nothing more is heard of crashes of its forks. `peer` is its connection.
  void on_zygote_ended(const Job& job, const net::Peer& peer);
  /// The worker's connection has ended.
  void on_connection_ended(std::shared_ptr<Worker> worker);

  // ---- Who is here

  std::shared_ptr<Worker> find(WorkerId worker) const;
  /// Returns the worker that runs this incarnation and has proved itself.
  std::shared_ptr<Worker> find(ActorId actor, std::uint32_t incarnation) const;
  const std::unordered_map<WorkerId, std::shared_ptr<Worker>>& all() const { return workers_; }

 private:
  async::Async<Result<std::shared_ptr<Worker>>> fork(std::shared_ptr<Worker> worker, async::Deadline deadline);
  Result<std::vector<Fd>> make_streams(const std::shared_ptr<Worker>& worker);
  async::Async<void> conclude(std::shared_ptr<Worker> worker);
  async::Async<std::string> find_reason(std::shared_ptr<Worker> worker);
  static void process_ended(Worker& worker, Process::End end);

  Site& site_;
  Clients& clients_;
  JobOutput& output_;
  Logs& logs_;
  Owner& owner_;
  std::unordered_map<WorkerId, std::shared_ptr<Worker>> workers_;
};

/// Says for users how a process ended. `status` is as waitpid gives it, or a negative errno if it could not be started.
std::string describe_end(int status);

}  // namespace pharos::node
