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

#include "call_link.hpp"
#include "result_cell.hpp"
#include "shape.hpp"

namespace pharos::actors {

class Recipes;

/// A caller's tasks of one shape that wait, and the workers that are leased for them. A worker gets a second task while
/// it runs one only as long as tasks are short: then the next is there when it is done; otherwise another worker might
/// have run it sooner, and where one takes long after all, those behind it are taken back. Owned by the caller. Any
/// thread. Bounds: `kWaitingMax` tasks wait; the next one fails with kOverloaded.
class TaskPool final : public CallLink::Observer {
 public:
  static constexpr std::size_t kWaitingMax = std::size_t{1} << 22;

  /// What the pool asks of its caller; called from any thread, without the pool's lock.
  class Leases {
   public:
    virtual ~Leases() = default;
    /// One more worker, if it may be; add_worker() or lease_refused() answers.
    virtual void request_lease(TaskPool& pool) = 0;
    virtual void return_lease(WorkerId worker) = 0;
    /// Tasks wait, and it is too soon to ask for a worker: tend() is to be called after a while.
    virtual void tend_soon() = 0;
    /// Its connection has ended; lose_worker() follows when the reason is known.
    virtual void worker_disconnected(WorkerId worker) = 0;
    virtual Recipes& recipes() = 0;
  };

  TaskPool(Leases& leases, const Clock& clock, Shape shape)
      : leases_{leases}, clock_{clock}, shape_{std::move(shape)} {}

  /// Of each of its tasks.
  const Shape& shape() const { return shape_; }

  /// Sets a lower bound than kWaitingMax, which a test can reach; is called before the first submit().
  void set_waiting_max(std::size_t tasks) { waiting_max_ = tasks; }
  /// How many leases are asked for at once.
  void set_requests_max(std::uint32_t requests);

  void submit(detail::CellHandle cell);
  /// Gives up a task that waits for a worker: true, and it is nobody's here any more. One that a worker has: asks the
  /// worker to.
  bool cancel(detail::ResultCell& cell);
  /// Where a task is, if the cell waits for one.
  struct Place {
    WorkerId worker;  ///< none: it waits for one
    std::uint64_t number = 0;
  };
  std::optional<Place> find(const detail::ResultCell& cell);
  /// Takes a task that waits, so that whoever waits for it can run it instead; only when there will be no worker for
  /// it soon. False otherwise.
  bool take_back(detail::ResultCell& cell);

  void add_worker(WorkerId worker, std::shared_ptr<CallLink> link);
  /// A lease that will not come. When the machine has as many workers as it may (kOverloaded), it is asked for again
  /// after a while; otherwise, without any worker, the tasks that wait fail with it, but those that may be run again
  /// where a worker died (kWorkerDied).
  void lease_refused(const Error& why);
  /// False if it was lost, or given back, before.
  bool lose_worker(WorkerId worker, const Error& why);
  /// Others wait for what these workers have: gives back so many of them, those that are idle or whose tasks end first,
  /// and with those what they have not begun. How many of its workers it will give back.
  std::size_t recall(const std::vector<WorkerId>& workers, std::size_t count);
  /// Gives back what nobody has used for a while, asks again for what was refused, and takes back what waits behind a
  /// task that takes long. To be called from time to time, until it is false.
  bool tend();
  /// Fails everything, now and later.
  void close(const Error& why);

  void on_replies(CallLink& link, std::size_t replies, Duration execution, std::size_t in_flight) override;
  void on_returned(CallLink& link, std::vector<detail::CellHandle> cells, bool takes_more) override;
  void on_large_result(detail::CellHandle cell, std::shared_ptr<object_store::Object> object,
                       detail::ActorHandles actors) override;
  void on_result_lost(detail::CellHandle cell, const Error& why) override;
  void on_argument_lost(detail::CellHandle cell, const Error& why) override;
  void on_disconnected(CallLink& link) override;

 private:
  struct Worker {
    WorkerId id;
    std::shared_ptr<CallLink> link;
    Duration mean_execution;  // of the last tasks; long until known
    TimePoint last_used;
    bool blocked = false;   // its task waits, or takes long, and it takes no other
    bool silent = false;    // since tend() was called last, with tasks in flight
    bool ends = false;      // and is given back when what runs there has ended
    bool recalled = false;  // this one, or another of those
    std::size_t window() const;
  };

  std::optional<Error> place(detail::CellHandle& cell, std::uint32_t& requests, bool& asks_later);
  void keep_what_may_run_again(std::deque<detail::CellHandle>& failed);
  Worker* find(const CallLink& link);
  Worker* least_busy();
  void feed(Worker& worker);
  /// What was taken out of a pool, and is to be given back without the pool's lock.
  using Done = std::vector<Worker>;
  void take_if_done(Worker& worker, std::size_t in_flight, Done& done);
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
  TimePoint refused_until_;  // the machine has as many workers as it may
  std::vector<Worker> workers_;
  std::size_t recalls_ = 0;  // so many of those that are recalled
  std::deque<detail::CellHandle> waiting_;
  std::optional<Error> closed_;
};

}  // namespace pharos::actors
