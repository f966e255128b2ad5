#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/scheduler/waiting_line.hpp>

namespace pharos::scheduler {

/// One request of a caller for a worker to send tasks to, until it is granted or dropped.
using LeaseRequestId = Id<struct LeaseRequestTag>;

/// Who asks: a driver, or a worker whose task submits tasks of its own.
struct Lessee {
  JobId job;
  CallerId caller;
  bool nested = false;  ///< a worker: at the bound it is refused CPUs, because it can run its tasks itself
};

/// What an actor's process holds of the node, or waits for, until it is given up.
using ReservationId = Id<struct ReservationTag>;

/// This worker is the requester's now.
struct Grant {
  LeaseRequestId request;
  WorkerId worker;
};
/// Start a worker for this job, which may use these GPUs, then report worker_started() or start_failed().
struct StartWorker {
  LeaseRequestId request;
  JobId job;
  std::vector<GpuShare> gpus{};
};
/// What it waited for is its now.
struct Reserved {
  ReservationId reservation;
};
/// It has been idle for long enough, or those whom it worked for are gone.
struct EndWorker {
  WorkerId worker;
};
/// A worker's request, which waited: as many processes are there as may be, so its tasks run in it (kOverloaded).
struct Refuse {
  LeaseRequestId request;
  Error why;
};
/// Somebody else waits for what these workers have: their lessee is to give back so many of them, those whose tasks end
/// first. All of them are one lessee's, and hold the same. The newest count holds: with 0 the lessee keeps all of them.
struct Recall {
  std::vector<WorkerId> workers;
  std::size_t count = 0;
};
using LeaseEffect = std::variant<Grant, StartWorker, EndWorker, Reserved, Refuse, Recall>;
using LeaseEffects = std::vector<LeaseEffect>;

/// Who has what of one node: which worker process serves whose tasks, and what the processes of actors hold. Who comes
/// first is served first; who does not fit has what it asks for set aside as it becomes free, and those behind it may
/// take the rest. Idle workers are kept for a while because the next lease of the same job can have them at once.
/// A worker whose task waits for other tasks gives its CPUs to another, until there are `workers_max` processes; past
/// that there are only those that ask for more than CPUs, which not just anybody can give, and which bounds them. One
/// that may use GPUs ends with its lease, and what it had is free when its process is gone: until then it has memory
/// there.
/// A lessee keeps its workers for as long as it has tasks, unless somebody else has waited for longer than kPatience:
/// an actor, a program that has less of the node, or another caller of the same program that has less. Then leases are
/// recalled, and whoever they are recalled for goes before all others that wait. A lease of less than kLeaseMin is left
/// alone, so that two programs on one CPU take turns of at least that.
/// Pure: events in, effects out, the time passed in. One thread. A worker runs one job's code only, so an idle worker
/// serves its own job. Bounds: `kWaitingMax` requests wait; the next one is refused with kOverloaded, and so is
/// a nested one, also one that waits, while every process that may be there is there. Reservations are as many as the
/// head makes.
class Leases {
 public:
  static constexpr std::size_t kWaitingMax = 65536;
  static constexpr Duration kPatience = std::chrono::milliseconds{10};
  static constexpr Duration kLeaseMin = std::chrono::milliseconds{50};
  static constexpr Duration kGpuLeaseMin = std::chrono::seconds{10};  ///< the next process has to load CUDA again
  static constexpr Duration kAnswerTime =
      std::chrono::milliseconds{100};                                 ///< of a recall; then another one is recalled
  static constexpr Duration kSayAgainTime = std::chrono::seconds{1};  ///< when all that there is has been recalled

  Leases(const Resources& total, std::uint32_t workers_max, Duration idle_time)
      : ledger_{total}, workers_max_{workers_max}, idle_time_{idle_time} {}

  /// What could never fit waits for ever: the caller looks at could_fit() first.
  Result<LeaseEffects> request(LeaseRequestId request, const Lessee& lessee, const Resources& demand, TimePoint now);
  /// It is served elsewhere. Nothing: it does not wait, and what was granted or is being started for it stands.
  std::optional<LeaseEffects> withdraw(LeaseRequestId request);
  LeaseEffects worker_started(LeaseRequestId request, WorkerId worker);
  LeaseEffects start_failed(LeaseRequestId request);
  /// The task that it runs waits for something: its CPUs are free meanwhile.
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
  /// What the head has given to an actor: served before tasks. `release` also of one that waits still.
  LeaseEffects reserve(ReservationId reservation, const Allotment& allotment, TimePoint now);
  LeaseEffects release(ReservationId reservation);
  /// Ends what was idle for too long.
  LeaseEffects tick(TimePoint now);
  /// Asks for leases back that others wait for, and withdraws what is not needed any more. To be called every few
  /// milliseconds while has_to_recall().
  LeaseEffects recall(TimePoint now);
  /// Somebody waits who is not the only lessee, or leases are recalled.
  bool has_to_recall() const;

  /// Who has it, if it is leased.
  std::optional<CallerId> lessee_of(WorkerId worker) const;
  /// What it has, with its lease or until its process is gone. Nothing for one that is idle.
  Resources held_by(WorkerId worker) const;
  const Resources& total() const { return ledger_.total(); }
  bool could_fit(const Resources& demand) const { return ledger_.could_fit(demand); }
  /// What tasks have.
  Resources tasks() const;
  /// Not taken: by actors, by workers that are being started for a lease, or leased and not blocked.
  const Resources& left() const { return ledger_.left(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// For what, and how many: the longest lines first, no more than so many.
  std::vector<std::pair<Resources, std::size_t>> waiting_for(std::size_t max) const { return waiting_.longest(max); }
  /// A worker is being started for it.
  bool starts(LeaseRequestId request) const { return starting_.contains(request); }
  std::size_t idle() const { return idle_.size(); }
  bool holds(ReservationId reservation) const { return reserved_.contains(reservation); }
  /// Also those that wait.
  std::size_t reservations() const { return reserving_.size() + reserved_.size(); }
  /// For tests, between two events: who has what another has, and what nobody has and is not free. Empty: nothing.
  std::string check() const;

 private:
  struct Waiting {
    LeaseRequestId request;
    Lessee lessee;
    TimePoint since;
    bool first = false;  // leases were recalled for it
  };
  struct Reserving {
    ReservationId reservation;
    Allotment allotment;
    TimePoint since;
  };
  struct Leased {
    Lessee lessee;
    Allotment allotment;
    TimePoint since;  // as far as is known
    bool blocked = false;
  };
  /// Leases of one caller that hold the same: any of them is as good.
  using Kind = std::pair<CallerId, Resources>;
  struct Recalled {
    std::size_t count = 0;  // that have not been returned
    TimePoint since;        // of the last one
  };
  class Recalling;
  struct Idle {
    WorkerId worker;
    JobId job;
    TimePoint since;
  };

  LeaseEffects end_leases_if(const std::function<bool(const Lessee&)>& ends);
  bool end_lease(WorkerId worker, const Leased& leased);
  void grant_what_fits(LeaseEffects& effects);
  void grant(const Waiting& next, const Resources& demand, LeaseEffects& effects);
  bool others_wait() const;
  void note_returned(const Leased& leased);
  Error too_many() const;
  std::size_t workers() const { return leased_.size() + starting_.size(); }

  Ledger ledger_;
  std::uint32_t workers_max_;
  Duration idle_time_;
  WaitingLine<Waiting> waiting_;
  std::unordered_map<LeaseRequestId, Leased> starting_;
  std::unordered_map<WorkerId, Leased> leased_;
  std::unordered_map<WorkerId, Allotment> ending_;  // had GPUs
  std::deque<Idle> idle_;                           // longest idle first
  std::vector<Reserving> reserving_;                // in their order
  std::unordered_map<ReservationId, Allotment> reserved_;
  std::map<Kind, Recalled> recalled_;
  TimePoint now_;  // when something was last told with the time
};

}  // namespace pharos::scheduler
