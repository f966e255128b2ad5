#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/scheduler/environment.hpp>
#include <pharos/wire/message.hpp>

#include "node/clients.hpp"
#include "node/site.hpp"
#include "workers/job.hpp"

namespace pharos::node {

/// Starts the zygotes of jobs, and starts them again when they end by themselves, three times in a row at most; after
/// that there can be no new workers of them (Workers::start()). A job has a zygote (Job::zygote), and further ones for
/// other environments (Job::others), of which a node has kOthersMax at a time. They end with their job.
/// Owned by Jobs; on the node's strand. Its coroutines run in the node's background group, which ends before it. The
/// destructor ends no process.
class Zygotes {
 public:
  static constexpr std::size_t kOthersMax = 8;

  Zygotes(Site& site, Clients& clients) : site_{site}, clients_{clients} {}

  /// Loads the program of a job, whose executable is open. Waits up to 55 s for the zygote's proof, and as long for its
  /// program. If it has not loaded in time, or ends, kDeadlineExceeded or kUnavailable; kFailedPrecondition if it is
  /// not the build that the job has; kRuntimeStopped if the job ends; kCancelled; or an error of the system.
  async::Async<Result<void>> load(std::shared_ptr<Job> job);
  /// The same, and a zygote that ends is started again up to three times: it may have been killed. A program that
  /// cannot be loaded ends each time; then kFailedPrecondition.
  async::Async<Result<void>> load_patiently(std::shared_ptr<Job> job);
  /// Returns the zygote with this environment. If there is none, it begins to load one; of those that have no worker,
  /// the one that was not used for the longest time makes room for it. kOverloaded if all have workers. Does not wait:
  /// the zygote says when it is loaded, and why it is broken.
  Result<std::shared_ptr<Zygote>> find(const std::shared_ptr<Job>& job, const scheduler::Environment& environment);
  /// The job's program cannot run here: closes the connection of its zygote, which then ends.
  void break_job(Job& job, const Error& why);
  /// Ends the zygotes of a job that is over, also those that are being loaded.
  void end(Job& job);

  // ---- Events

  static void on_ready(Job& job, const net::Peer& peer, const wire::ZygoteReady& ready);
  /// The connection of a zygote has ended. A zygote that had loaded its program is started again.
  void on_connection_ended(const std::shared_ptr<Job>& job, const net::Peer& peer);
  /// A process has ended, which may be a zygote of this job.
  static void on_process_ended(Job& job, pid_t pid, int status);

 private:
  using ZygotePtr = std::shared_ptr<Zygote>;
  /// A zygote of another environment, and whose it is.
  struct Other {
    std::weak_ptr<Job> job;
    std::weak_ptr<Zygote> zygote;
  };

  async::Async<Result<void>> load(std::shared_ptr<Job> job, ZygotePtr zygote);
  async::Async<Result<void>> load_patiently(std::shared_ptr<Job> job, ZygotePtr zygote);
  async::Async<void> load_other(std::shared_ptr<Job> job, ZygotePtr zygote);
  async::Async<Result<void>> start(std::shared_ptr<Job> job, ZygotePtr zygote);
  async::Async<void> restart(std::shared_ptr<Job> job, ZygotePtr zygote);
  Result<void> make_room();
  void drop(Zygote& zygote);
  void end(Zygote& zygote);

  Site& site_;
  Clients& clients_;
  std::vector<Other> others_;  // also some that are gone
};

}  // namespace pharos::node
