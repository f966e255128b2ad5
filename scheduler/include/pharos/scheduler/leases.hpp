#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// One request of a driver for a worker to send tasks to, until it is granted or dropped.
using LeaseRequestId = Id<struct LeaseRequestTag>;

/// This worker is the requester's now.
struct Grant {
  LeaseRequestId request;
  WorkerId worker;
};
/// Start a worker for this job, then report worker_started() or start_failed().
struct StartWorker {
  LeaseRequestId request;
  JobId job;
};
/// It has been idle for long enough, or its job is gone.
struct EndIdleWorker {
  WorkerId worker;
};
using LeaseEffect = std::variant<Grant, StartWorker, EndIdleWorker>;
using LeaseEffects = std::vector<LeaseEffect>;

/// Which worker process serves whose tasks on one node: at most as many leases as there are CPUs, first come first
/// served, and idle workers kept for a while because the next lease of the same job can have them at once.
/// Pure: events in, effects out, the time passed in. One thread.
/// A worker runs one job's code only, so an idle worker serves its own job.
/// Bounds: `kWaitingMax` requests wait; the next one is refused with kOverloaded.
class Leases {
 public:
  static constexpr std::size_t kWaitingMax = 65536;

  Leases(std::uint32_t cpus, Duration idle_time) : cpus_{cpus}, idle_time_{idle_time} {}

  Result<LeaseEffects> request(LeaseRequestId request, JobId job);
  LeaseEffects worker_started(LeaseRequestId request, WorkerId worker);
  LeaseEffects start_failed(LeaseRequestId request);
  /// The driver needs it no more. No effect for a worker that is not leased.
  LeaseEffects returned(WorkerId worker, TimePoint now);
  /// Its process is gone, in whatever state it was.
  LeaseEffects worker_ended(WorkerId worker);
  /// Its driver is gone: its requests are dropped, and its workers end.
  LeaseEffects job_ended(JobId job);
  /// Ends what was idle for too long.
  LeaseEffects tick(TimePoint now);

  std::uint32_t cpus() const { return cpus_; }
  /// Leased, or being started for a lease.
  std::uint32_t in_use() const { return in_use_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t idle() const { return idle_.size(); }

 private:
  struct Waiting {
    LeaseRequestId request;
    JobId job;
  };
  struct Idle {
    WorkerId worker;
    JobId job;
    TimePoint since;
  };

  void grant_what_fits(LeaseEffects& effects);

  std::uint32_t cpus_;
  Duration idle_time_;
  std::uint32_t in_use_ = 0;
  std::deque<Waiting> waiting_;
  std::unordered_map<LeaseRequestId, JobId> starting_;
  std::unordered_map<WorkerId, JobId> leased_;
  std::deque<Idle> idle_;  // longest idle first
};

}  // namespace pharos::scheduler
