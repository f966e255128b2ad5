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
#include <pharos/scheduler/environment.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/scheduler/waiting_line.hpp>

namespace pharos::scheduler {

/// A request of a caller for a worker that runs its tasks. It lasts until it is granted, refused or withdrawn, until no
/// worker could be started for it, or until the caller ends. The node chooses the number, and uses it once.
using LeaseRequestId = Id<struct LeaseRequestTag>;

/// The caller that asks for workers: a driver, or a worker whose task submits tasks of its own.
struct Lessee {
  JobId job;
  CallerId caller;
  /// The caller is a worker. At the limit of workers its requests for CPUs alone are refused, because it can run its
  /// tasks itself.
  bool nested = false;
  /// What the processes of its tasks have beside the program's variables. Only a worker with the same ones will do.
  Environment environment{};
};

/// The resources of this node that the head has given to one actor or to one bundle of a group. A reservation may have
/// to wait for them. It lasts until it is released. The node chooses the number, and uses it once.
using ReservationId = Id<struct ReservationTag>;

/// The request gets this worker.
struct Grant {
  LeaseRequestId request;
  WorkerId worker;
};
/// Tells the node to start a worker for this job, which may use these GPUs, and then to report worker_started() or
/// start_failed().
struct StartWorker {
  LeaseRequestId request;
  JobId job;
  std::vector<GpuShare> gpus{};
  Environment environment{};
};
/// The reservation has its resources.
struct Reserved {
  ReservationId reservation;
};
/// Tells the node to end a worker: it was idle for long enough, its lessee or its job is gone, or its lease with GPUs
/// is over.
struct EndWorker {
  WorkerId worker;
};
/// Refuses, with kOverloaded, a waiting request: the limit of workers is reached and a worker made the request, so it
/// runs the tasks itself; or the bundle was given up.
struct Refuse {
  LeaseRequestId request;
  Error why;
};
/// Asks a lessee to give back `count` of these workers, whichever finish their tasks first, because others wait for
/// their resources. All the workers belong to one lessee and hold the same amounts. The newest count for them is the
/// valid one; with 0 the lessee keeps all of them.
struct Recall {
  std::vector<WorkerId> workers;
  std::size_t count = 0;
};
using LeaseEffect = std::variant<Grant, StartWorker, EndWorker, Reserved, Refuse, Recall>;
using LeaseEffects = std::vector<LeaseEffect>;

/// Gives out the resources of one node, or of one bundle of a placement group there: which worker process runs the
/// tasks of which caller, and what the processes of actors hold. A lease is the right of one caller, the lessee, to
/// send tasks to one worker. Requests are served in the order in which they came. For a request that does not fit,
/// resources are set aside as they become free, and requests behind it may take the rest. Idle workers are kept for a
/// while, because the next lease of the same job and environment can use them at once. A worker runs the code of one
/// job only. A worker whose task waits for other tasks lends its CPUs to other workers, until there are `workers_max`
/// workers. Beyond that limit only requests that ask for more than CPUs are served; their other resources limit them. A
/// worker with GPUs ends with its lease, and what it held is free only when its process is gone, because the process
/// uses GPU memory until then. A lessee keeps its workers as long as it has tasks, unless another has waited for more
/// than kWaitBeforeRecall: an actor, a program that has less of the node, or another caller of the same program that
/// has less. Then leases are recalled, and the request for which they are recalled moves to the front of the queue.
/// Leases younger than kLeaseMin, or kGpuLeaseMin for leases with GPUs, are not recalled, so two programs on one CPU
/// take turns of at least that time. Pure: events go in and effects come out, and the time is passed in. Owned by
/// LeaseBook, and used on the node's strand. Events about workers, requests and reservations that are unknown here
/// change nothing. Bounds: `kWaitingMax` requests wait, and the next one is refused with kOverloaded. Requests of
/// workers for CPUs alone are refused with kOverloaded, also while they wait, when the limit of workers is reached. The
/// number of reservations depends on the head.
class Leases {
 public:
  static constexpr std::size_t kWaitingMax = 65536;
  static constexpr Duration kWaitBeforeRecall = std::chrono::milliseconds{10};
  static constexpr Duration kLeaseMin = std::chrono::milliseconds{50};
  /// Long, because the next process has to load CUDA again.
  static constexpr Duration kGpuLeaseMin = std::chrono::seconds{10};
  /// When a recall has had no effect for this long, another lease is recalled too.
  static constexpr Duration kAnswerTime = std::chrono::milliseconds{100};
  /// If all leases are recalled already, the recall is sent again after this time.
  static constexpr Duration kSayAgainTime = std::chrono::seconds{1};

  /// `total` are the resources of a node, or the allotment of a bundle.
  Leases(ResourceLedger total, std::uint32_t workers_max, Duration idle_time)
      : all_{std::move(total)}, ledger_{all_}, workers_max_{workers_max}, idle_time_{idle_time} {}

  /// Asks for a worker that holds `demand`. The caller must have checked could_fit(), because a demand that can never
  /// fit would wait for ever. Returns kOverloaded at the bounds above.
  Result<LeaseEffects> request(LeaseRequestId request, const Lessee& lessee, const Resources& demand, TimePoint now);
  /// Removes a waiting request, because it is served elsewhere. Returns nullopt if the request does not wait; what was
  /// granted or is being started for it is not changed then.
  std::optional<LeaseEffects> withdraw(LeaseRequestId request);
  /// The worker of a StartWorker runs, and the request is granted. If the lessee has ended meanwhile, the only effect
  /// is EndWorker.
  LeaseEffects worker_started(LeaseRequestId request, WorkerId worker);
  /// The worker of a StartWorker could not be started. The request is dropped, and no effect says so: the node answers
  /// the request.
  LeaseEffects start_failed(LeaseRequestId request);
  /// The task that the worker runs waits for something. Its CPUs are free meanwhile.
  LeaseEffects blocked(WorkerId worker);
  /// The worker's task goes on, even if no CPU is free. Nothing is taken from other workers, but nothing new fits until
  /// a CPU is free again.
  LeaseEffects unblocked(WorkerId worker);
  /// The lessee does not need the worker any more. Has no effect if the worker is not leased by `lessee`.
  LeaseEffects returned(WorkerId worker, CallerId lessee, TimePoint now);
  /// The worker's process is gone, whatever its state was.
  LeaseEffects worker_ended(WorkerId worker);
  /// The lessee is gone: its requests are dropped without an effect, and the workers that run its tasks end. Workers
  /// that are being started for it end after worker_started().
  LeaseEffects lessee_ended(CallerId lessee);
  /// The job's driver and all its other callers are gone: as lessee_ended() for each of them, and the job's idle
  /// workers end too.
  LeaseEffects job_ended(JobId job);
  /// Reserves what the head has given to an actor or to a bundle. Reservations are served before tasks. A reservation
  /// that still waits can be released, too.
  LeaseEffects reserve(ReservationId reservation, const Allotment& allotment, TimePoint now);
  LeaseEffects release(ReservationId reservation);
  /// The bundle is given up: idle workers end, requests that wait are refused with kOverloaded, so that their callers
  /// ask again, and all leases are recalled. Nothing may be asked for after that.
  LeaseEffects close(TimePoint now);
  /// Ends the idle workers that have an environment of their own, because another one wants its place.
  LeaseEffects end_idle_in_environments();
  /// Ends the workers that have been idle for too long.
  LeaseEffects tick(TimePoint now);
  /// Recalls leases for requests and reservations that wait, and cancels recalls that are not needed any more. To be
  /// called every few milliseconds while has_to_recall() is true.
  LeaseEffects recall(TimePoint now);
  /// Returns whether recall() may have something to do: something waits while another lessee has workers, or leases are
  /// recalled.
  bool has_to_recall() const;

  /// Returns the lessee of the worker; nullopt if the worker is not leased.
  std::optional<CallerId> lessee_of(WorkerId worker) const;
  /// Returns what the worker holds, by its lease or until its process is gone; empty for an idle worker.
  Resources held_by(WorkerId worker) const;
  const Resources& total() const { return ledger_.total(); }
  bool could_fit(const Resources& demand) const { return ledger_.could_fit(demand); }
  /// Returns what is taken by tasks, which is all that is not taken by reservations.
  Resources tasks() const;
  /// Resources that are not taken by reservations, by leased workers that do not wait for other tasks, or by workers
  /// that start or end.
  const Resources& left() const { return ledger_.left(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Returns how many requests wait for each demand: at most `max` demands, the longest lines first.
  std::vector<std::pair<Resources, std::size_t>> waiting_for(std::size_t max) const { return waiting_.longest(max); }
  /// Returns whether a worker is being started for this request.
  bool starts(LeaseRequestId request) const { return starting_.contains(request); }
  std::size_t idle() const { return idle_.size(); }
  bool holds(ReservationId reservation) const { return reserved_.contains(reservation); }
  /// Returns whether nothing is reserved or leased, waits, starts or ends.
  bool is_unused() const {
    return reservations() == 0 && leased_.empty() && starting_.empty() && ending_.empty() && waiting_.empty();
  }
  /// The number of reservations, including those that wait.
  std::size_t reservations() const { return reserving_.size() + reserved_.size(); }
  /// For tests, between two events. Describes resources that are given twice, and resources that are neither given nor
  /// free; empty if all is right.
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
    TimePoint since;  // when the lease began, as far as is known
    bool blocked = false;
  };
  /// All leases of one caller that hold the same amounts; any of them can be given back for another.
  using Kind = std::pair<CallerId, Resources>;
  struct Recalled {
    std::size_t count = 0;  // recalled leases that have not been returned
    TimePoint since;        // when the last recall was sent
  };
  class Recalling;
  struct Idle {
    WorkerId worker;
    JobId job;
    Environment environment;
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

  ResourceLedger all_;  // with nothing taken
  ResourceLedger ledger_;
  std::uint32_t workers_max_;
  Duration idle_time_;
  WaitingLine<Waiting> waiting_;
  std::unordered_map<LeaseRequestId, Leased> starting_;
  std::unordered_map<WorkerId, Leased> leased_;
  std::unordered_map<WorkerId, Allotment> ending_;  // workers that had GPUs, until their processes are gone
  std::deque<Idle> idle_;                           // longest idle first
  std::vector<Reserving> reserving_;                // reservations that wait, in their order
  std::unordered_map<ReservationId, Allotment> reserved_;
  std::map<Kind, Recalled> recalled_;
  bool closed_ = false;
  TimePoint now_;  // the time that was passed in last
};

}  // namespace pharos::scheduler
