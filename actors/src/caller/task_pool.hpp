#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>

#include "caller/lineage.hpp"
#include "caller/outgoing_calls.hpp"
#include "caller/shape.hpp"
#include "results/result_cell.hpp"

namespace pharos::actors {

/// The tasks of one shape of a caller that wait for workers, and the workers that are leased for them. A worker that
/// runs a task gets further ones only while tasks are short: the next task is then there when the worker is done. If
/// tasks are long, another worker might run the next one sooner; and if one task turns out to be long, the tasks behind
/// it are taken back.
/// Shared by TaskPools, the connections to its workers, and the recipes of its results. Any thread. Bounds: when
/// `kWaitingMax` tasks wait, the next one that is submitted fails with kOverloaded. End: close() ends the pool and
/// fails its tasks: those that were sent as "unknown", the others as "not started" unless an earlier attempt was sent.
/// `leases` and `clock` must outlive its use.
class TaskPool final : public OutgoingCalls::Observer, public RunsAgain {
 public:
  static constexpr std::size_t kWaitingMax = std::size_t{1} << 22;

  /// The requests of the pool to its owner. Called from any thread, without the pool's lock.
  class Leases {
   public:
    virtual ~Leases() = default;
    /// Asks for one more worker. The caller answers with add_worker() or lease_refused().
    virtual void request_lease(TaskPool& pool) = 0;
    virtual void return_lease(WorkerId worker) = 0;
    /// The same, and the worker is killed.
    virtual void kill_worker(WorkerId worker) = 0;
    /// Asks for a call of tend() after a while: tasks wait, and it is too soon to ask for a worker.
    virtual void tend_soon() = 0;
    /// The worker's connection has ended. The caller calls lose_worker() when it knows the reason.
    virtual void worker_disconnected(WorkerId worker) = 0;
    virtual Lineage& lineage() = 0;
  };

  TaskPool(Leases& leases, const Clock& clock, Shape shape)
      : leases_{leases}, clock_{clock}, shape_{std::move(shape)} {}

  /// Returns the shape that all tasks of this pool have.
  const Shape& shape() const { return shape_; }

  /// Sets a lower bound than kWaitingMax, which a test can reach; is called before the first submit().
  void set_waiting_max(std::size_t tasks) { waiting_max_ = tasks; }
  /// Sets how many requests for leases may be under way at once.
  void set_requests_max(std::uint32_t requests);

  /// Takes a task, whose arguments are complete. If the pool is closed or full, the cell fails.
  void submit(detail::CellHandle cell) override;
  /// Gives up a task. Returns true if the task was not sent to a worker; the pool has then forgotten it. If a worker
  /// has the task, asks the worker to give it up, and returns false.
  bool cancel(detail::ResultCell& cell);
  /// Kills the worker that runs this task, as soon as it has given back the tasks that it has not begun. The cell then
  /// has kCancelled, unless its result comes first. Does nothing if no worker of this pool has the task.
  void end_by_force(const detail::ResultCell& cell);
  /// Where a task is.
  struct Place {
    WorkerId worker;           ///< the worker that it was sent to; none while the task waits
    std::uint64_t number = 0;  ///< the call's number, if it was sent
  };
  /// Returns where the task of this cell is; nullopt if it is not in this pool.
  std::optional<Place> find(const detail::ResultCell& cell);
  /// Takes a waiting task out of the pool, so that the thread that waits for its result can run it. Returns false if
  /// the task does not wait here, or if a worker may come soon, because no lease was refused lately.
  bool take_back(detail::ResultCell& cell);

  /// A requested lease was granted.
  void add_worker(WorkerId worker, std::shared_ptr<OutgoingCalls> calls);
  /// A requested lease was refused. kOverloaded says that the machine has as many workers as it may; the pool then asks
  /// again after a while. After another error the waiting tasks fail with it, if the pool has no worker and expects
  /// none. If that error is kWorkerDied, tasks that may run again go on waiting.
  void lease_refused(const Error& why);
  /// A worker has died. Tasks that were not sent to it, or that may run again, wait for another worker; the others
  /// fail with `why`. Returns false if the pool does not have this worker, because it was lost or given back before.
  bool lose_worker(WorkerId worker, const Error& why);
  /// Gives `count` of these workers back, because other callers wait for their resources: at once those that are idle,
  /// then those that are the first to end a task. The tasks that these have not begun are taken back. Returns how many
  /// of its workers this pool will give back.
  std::size_t recall(const std::vector<WorkerId>& workers, std::size_t count);
  /// Gives back workers that were idle for a while, asks again for refused leases, and takes back tasks that wait
  /// behind a long one. Must be called from time to time until it returns false: then the pool has no workers, requests
  /// or tasks.
  bool tend();
  /// Fails all tasks with `why`, and each task that is submitted later.
  void close(const Error& why);

  void on_replies(OutgoingCalls& calls, std::size_t replies, Duration execution, std::size_t in_flight) override;
  void on_returned(OutgoingCalls& calls, std::vector<detail::CellHandle> cells, bool takes_more) override;
  void on_large_result(detail::CellHandle cell, std::shared_ptr<object_store::Object> object,
                       detail::ActorHandles actors) override;
  void on_result_lost(detail::CellHandle cell, const Error& why) override;
  void on_argument_lost(detail::CellHandle cell, const Error& why) override;
  void on_disconnected(OutgoingCalls& calls) override;

 private:
  struct Worker {
    WorkerId id;
    std::shared_ptr<OutgoingCalls> calls;
    Duration mean_execution;  // mean of the last tasks; assumed to be long until it is known
    TimePoint last_used;
    bool blocked = false;   // its task waits, or takes long, so it gets no others
    bool silent = false;    // no reply has come since the last tend(), although tasks wait behind another
    bool ends = false;      // gets no more tasks, and is given back when its last task has ended
    bool recalled = false;  // named by the last recall(); `recalls_` of those are still to be given back
    std::optional<std::uint64_t> forced{};  // the call of the task that is to be ended by force
    /// How many tasks may be in flight to the worker.
    std::size_t window() const;
  };

  std::optional<Error> place(detail::CellHandle& cell, std::uint32_t& requests, bool& asks_later);
  void keep_what_may_run_again(std::deque<detail::CellHandle>& failed);
  Worker* find(const OutgoingCalls& calls);
  Worker* least_busy();
  void feed(Worker& worker);
  /// Workers that were taken out of the pool, and are to be given back after its lock is released.
  using Done = std::vector<Worker>;
  void take_if_done(Worker& worker, std::size_t in_flight, Done& done);
  void kill(const Worker& worker);
  void take_out(Worker& worker, Done& done);
  void give_back(const Done& done);
  std::uint32_t leases_to_request();
  void request_leases(std::uint32_t count);

  Leases& leases_;
  const Clock& clock_;
  const Shape shape_;
  std::size_t waiting_max_ = kWaitingMax;
  std::mutex mutex_;
  std::uint32_t requests_max_ = 1;
  std::uint32_t leases_requested_ = 0;
  TimePoint refused_until_;  // until then no lease is asked for, because the machine has as many workers as it may
  std::vector<Worker> workers_;
  std::size_t recalls_ = 0;  // how many of the recalled workers are still to be given back
  std::deque<detail::CellHandle> waiting_;
  std::optional<Error> closed_;
};

}  // namespace pharos::actors
