#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// One request of a caller for a worker to send tasks to, until it is granted or dropped.
using LeaseRequestId = Id<struct LeaseRequestTag>;

/// Who asks: a driver, or a worker whose task submits tasks of its own.
struct Lessee {
  JobId job;
  CallerId caller;
  bool nested = false;  ///< a worker: at the bound it is refused, because it can run its tasks itself
};

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
/// It has been idle for long enough, or those whom it worked for are gone.
struct EndWorker {
  WorkerId worker;
};
using LeaseEffect = std::variant<Grant, StartWorker, EndWorker>;
using LeaseEffects = std::vector<LeaseEffect>;

/// Which worker process serves whose tasks on one node: as many leases at once as there are CPUs, first come first
/// served, and idle workers kept for a while because the next lease of the same job can have them at once.
/// A worker whose task waits for other tasks gives its CPU to another, until there are `workers_max` processes.
/// Pure: events in, effects out, the time passed in. One thread.
/// A worker runs one job's code only, so an idle worker serves its own job.
/// Bounds: `kWaitingMax` requests wait; the next one is refused with kOverloaded, and so is a nested one while every
/// process that may be there is there.
class Leases {
 public:
  static constexpr std::size_t kWaitingMax = 65536;

  Leases(std::uint32_t cpus, std::uint32_t workers_max, Duration idle_time)
      : cpus_{cpus}, workers_max_{workers_max}, idle_time_{idle_time} {}

  Result<LeaseEffects> request(LeaseRequestId request, const Lessee& lessee);
  LeaseEffects worker_started(LeaseRequestId request, WorkerId worker);
  LeaseEffects start_failed(LeaseRequestId request);
  /// The task that it runs waits for something: its CPU is free meanwhile.
  LeaseEffects blocked(WorkerId worker);
  /// It goes on, whether or not there is a CPU: nothing is taken from others, but nothing new fits until one is free.
  LeaseEffects unblocked(WorkerId worker);
  /// Its lessee needs it no more. No effect for a worker that is not leased by it.
  LeaseEffects returned(WorkerId worker, CallerId lessee, TimePoint now);
  /// Its process is gone, in whatever state it was.
  LeaseEffects worker_ended(WorkerId worker);
  /// It is gone: its requests are dropped, and the workers that run its tasks end.
  LeaseEffects lessee_ended(CallerId lessee);
  /// Its driver is gone, and so are all its callers: its idle workers end too.
  LeaseEffects job_ended(JobId job);
  /// Ends what was idle for too long.
  LeaseEffects tick(TimePoint now);

  /// Who has it, if it is leased.
  std::optional<CallerId> lessee_of(WorkerId worker) const;
  std::uint32_t cpus() const { return cpus_; }
  /// CPUs that are taken: by workers that are leased and not blocked, or being started for a lease.
  std::uint32_t in_use() const { return in_use_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t idle() const { return idle_.size(); }

 private:
  struct Waiting {
    LeaseRequestId request;
    Lessee lessee;
  };
  struct Leased {
    Lessee lessee;
    bool blocked = false;
  };
  struct Idle {
    WorkerId worker;
    JobId job;
    TimePoint since;
  };

  LeaseEffects end_leases_if(const std::function<bool(const Lessee&)>& ends);
  void grant_what_fits(LeaseEffects& effects);
  std::size_t workers() const { return leased_.size() + starting_.size(); }

  std::uint32_t cpus_;
  std::uint32_t workers_max_;
  Duration idle_time_;
  std::uint32_t in_use_ = 0;
  std::deque<Waiting> waiting_;
  std::unordered_map<LeaseRequestId, Lessee> starting_;
  std::unordered_map<WorkerId, Leased> leased_;
  std::deque<Idle> idle_;  // longest idle first
};

}  // namespace pharos::scheduler
