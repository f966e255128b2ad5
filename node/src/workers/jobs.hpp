#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

#include "node/clients.hpp"
#include "node/far_nodes.hpp"
#include "node/site.hpp"
#include "workers/job.hpp"
#include "workers/job_output.hpp"
#include "workers/programs.hpp"
#include "workers/workers.hpp"
#include "workers/zygotes.hpp"

namespace pharos::node {

/// The jobs of a node: those of drivers here, and those of drivers elsewhere whose workers may run here. Each gets a
/// zygote, unless the node offers no resources. Calls about unknown jobs do nothing.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it. The
/// destructor ends no process.
class Jobs {
 public:
  /// What jobs need of the rest of the node. Called on the strand. Implemented by Node.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A driver has ended, or is about to.
    virtual void on_caller_ended(const Client& caller) = 0;
    /// The workers of the job were told to end; actors that have no process yet must not start.
    virtual void on_job_stops(JobId job) = 0;
    /// Nothing of the job may go on. Its workers are killed after this.
    virtual void on_job_ended(const std::shared_ptr<Job>& job) = 0;
  };

  Jobs(Site& site, Clients& clients, FarNodes& far_nodes, Workers& workers, JobOutput& output, Owner& owner);

  /// A driver registers its job; it is answered when its program is loaded. If the program cannot be loaded, the job
  /// ends, and the driver gets the error of Zygotes::load().
  void add(std::shared_ptr<net::Peer> driver, net::Parcel registration, std::uint64_t request);
  /// The head says that workers of a job of another node may be wanted here. If the program cannot be had or loaded,
  /// only the log says so, and Job::broken is set: requests for workers then fail with that error.
  void add_far(wire::AddJob add);
  /// From here on every driver that registers a job is refused with this error.
  void refuse(Error why) { refusal_ = std::move(why); }
  /// The cluster has that many CPUs.
  void note_cluster(std::uint32_t cpus) { cluster_cpus_ = cpus; }
  /// The first message to a caller of the job.
  wire::JobRegistered registration_of(const Job& job, CallerId caller) const;

  // ---- Their end

  /// A driver asks to stop its job on all nodes. It is answered when all workers are gone, or after 6 s if some are
  /// not, which the log says. Only the first request is answered, and none once the job stops already.
  void stop_everywhere(const std::shared_ptr<Job>& job, std::uint64_t request);
  /// The head orders to stop a job on this node. It is told when the job's workers are gone, or after some 5 s.
  void stop_here(JobId job);
  /// The head says that a job is stopped on all nodes.
  void on_stopped_everywhere(JobId job);
  /// The job's driver has ended. The head is told, and decides whether the job is over. Does nothing a second time.
  void end_driver(const std::shared_ptr<Job>& job);
  /// The job is over, and forgotten here. Its workers and its zygote are killed.
  void end(JobId job);

  // ---- Events

  /// A child of this process has ended, which may be a zygote.
  void on_child_ended(pid_t pid, int status);
  /// The connection of a zygote has ended.
  void on_zygote_ended(const std::shared_ptr<Job>& job, const net::Peer& peer) {
    zygotes_.on_connection_ended(job, peer);
  }
  /// Another head has taken the place of the one before. It is asked again to stop the jobs whose drivers wait for it.
  void ask_again() const;

  std::shared_ptr<Job> find(JobId job) const;
  /// Returns the zygote of the job with this environment: see Zygotes::find().
  Result<std::shared_ptr<Zygote>> zygote_of(const std::shared_ptr<Job>& job,
                                            const scheduler::Environment& environment) {
    return zygotes_.find(job, environment);
  }
  const std::unordered_map<JobId, std::shared_ptr<Job>>& all() const { return jobs_; }
  /// Sends the executable of a job to another node: see Programs::serve().
  void serve_program(JobId job, Fd socket) { programs_.serve(find(job).get(), std::move(socket)); }
  /// The number of executables that are being fetched.
  std::size_t coming_programs() const { return programs_.coming(); }

 private:
  async::Async<void> register_job(std::shared_ptr<net::Peer> driver, net::Parcel registration, std::uint64_t request);
  async::Async<void> load_far(std::shared_ptr<Job> job, std::vector<NodeId> sources);
  async::Async<void> wait_until_stopped(std::shared_ptr<Job> job, std::uint64_t request);
  async::Async<void> stop_workers(JobId job);

  Site& site_;
  Clients& clients_;
  Workers& workers_;
  Owner& owner_;
  Zygotes zygotes_;
  Programs programs_;
  std::unordered_map<JobId, std::shared_ptr<Job>> jobs_;
  std::optional<Error> refusal_;
  std::uint32_t cluster_cpus_ = 0;
};

}  // namespace pharos::node
