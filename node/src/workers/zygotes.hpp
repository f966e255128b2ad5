#pragma once

#include <sys/types.h>

#include <memory>

#include <pharos/async/async.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "node/clients.hpp"
#include "node/site.hpp"
#include "workers/job.hpp"

namespace pharos::node {

/// Starts the zygotes of jobs, and starts them again when they end by themselves, three times in a row at most; after
/// that the job can have no new workers (Workers::start()). A zygote belongs to its job (Job::zygote), and ends with
/// it.
/// Owned by Jobs; on the node's strand. Its coroutines run in the node's background group, which ends before it. The
/// destructor ends no process.
class Zygotes {
 public:
  Zygotes(Site& site, Clients& clients) : site_{site}, clients_{clients} {}

  /// Loads the program of a job, whose executable is open. Waits up to 55 s for the zygote's proof, and as long for its
  /// program. If it has not loaded in time, or ends, kDeadlineExceeded or kUnavailable; kFailedPrecondition if it is
  /// not the build that the job has; kRuntimeStopped if the job ends; kCancelled; or an error of the system.
  async::Async<Result<void>> load(std::shared_ptr<Job> job);
  /// The same, and a zygote that ends is started again up to three times: it may have been killed. A program that
  /// cannot be loaded ends each time; then kFailedPrecondition.
  async::Async<Result<void>> load_patiently(std::shared_ptr<Job> job);
  /// Closes the connection of the job's zygote, which then ends.
  void drop(Job& job);
  /// Ends the zygote of a job that is over, also one that is being loaded.
  void end(Job& job);

  // ---- Events

  static void on_ready(Job& job, const wire::ZygoteReady& ready) { job.zygote.ready.complete(ready); }
  /// The connection of the job's zygote has ended. A zygote that had loaded its program is started again.
  void on_connection_ended(std::shared_ptr<Job> job);
  /// The process of the job's zygote has ended.
  static void on_process_ended(Job& job, int status);

 private:
  async::Async<Result<void>> start(std::shared_ptr<Job> job);
  async::Async<void> restart(std::shared_ptr<Job> job);

  Site& site_;
  Clients& clients_;
};

}  // namespace pharos::node
