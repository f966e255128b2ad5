#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>
#include <pharos/base/fd.hpp>

struct epoll_event;

namespace pharos::net {

/// Waits for descriptors and timers, and runs what is posted: the epoll set of one daemon, driver or worker.
///
/// Any number of threads may poll. Every registration is edge-triggered, so an event goes to one thread; and the kernel
/// wakes the thread that came to wait last. Three things follow, and the speed of a call rests on them:
///   1. A thread that blocks for a result polls by itself and receives its reply without a hand-off, although a
///      background thread waits on the same set: the background thread came earlier.
///   2. While one thread is inside a long callback, the next event wakes another one at once.
///   3. Where calls follow each other closely, a thread that spins for some microseconds before it sleeps finds the
///      next event without being woken, which between two CPUs costs more than all the rest of a call. Spinning stops
///      by itself where it finds nothing. Other threads stay out of the set meanwhile, or each event would wake them;
///      they look every 50 us to 1 ms whether the spinning thread is held up in a callback, and then take over.
/// As an Executor it is a strand: posted work and timers run one after the other, on whichever thread polls.
///
/// Owned by the object that composes the process; outlives every descriptor registered in it.
class Reactor final : public async::Executor {
 public:
  /// Told about a descriptor. Kept alive by the reactor while registered and while a callback runs.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// EPOLL* bits. May be called from several threads at once: one edge each.
    virtual void on_ready(std::uint32_t events) = 0;
  };

  enum class Poller : std::uint8_t {
    kBackground,  ///< never spins
    kServer,      ///< spins: a worker's thread, for which the next call may be on its way
    kLeader,      ///< spins: a user's thread that waits; at most one at a time, the one that interrupt() wakes
  };

  Reactor();
  ~Reactor() override;

  /// `events` is EPOLLIN, EPOLLOUT or both. The descriptor stays the caller's.
  void watch(int fd, std::uint32_t events, std::shared_ptr<Watcher> watcher);
  void change(int fd, std::uint32_t events);
  /// No event begins after it returns, but one that has begun may still be running.
  void unwatch(int fd);

  /// Waits for one event, no longer than the deadline, and runs what it brings. Any thread.
  void poll_one(async::Deadline deadline, Poller role = Poller::kBackground);

  /// Makes the leader's poll_one return, even if it begins only later.
  void interrupt();

  /// What a descriptor's callback posts runs when that callback is done, or before if something else wakes a poller.
  void post(async::Callback work) override;
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override;
  /// Also from inside a descriptor's callback: what is posted runs meanwhile, where another thread polls.
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, async::Deadline deadline,
            async::UniqueFunction<bool()> done) override;

  /// Inside a callback: from here to the end, this thread runs code that takes long or waits, and is not taken for one
  /// that will soon be back to run what was posted. `left` is what the beginning gave.
  const void* begin_detour();
  void end_detour(const void* left);

  /// In the child after a fork: closes this process's copies of everything, so that a peer sees the parent's end.
  /// The reactor can only be destroyed afterwards.
  void abandon_after_fork();

 private:
  struct Slot {
    std::uint32_t generation = 0;
    int fd = -1;
    std::shared_ptr<Watcher> watcher;
  };

  bool gives_way(Poller role);
  bool spin(epoll_event& event, Poller role, async::Deadline deadline);
  bool sleep(epoll_event& event, async::Deadline deadline);
  void handle(const epoll_event& event, Poller role);
  void run_strand();
  bool run_one_of_strand();
  void arm(std::unique_lock<std::mutex>& lock);
  void signal(int fd);
  void leave_to_leader();
  std::optional<std::uint32_t> slot_of(int fd) const;
  void add_internal(int fd, std::uint32_t events, std::uint64_t token);
  std::shared_ptr<Watcher> find(std::uint64_t token);

  Fd epoll_;
  Fd post_event_;       // edge-triggered: something was posted
  Fd interrupt_event_;  // level-triggered: stays until the leader takes it
  Fd timer_event_;
  std::atomic<bool> leader_waits_ = false;
  std::atomic<bool> interrupted_ = false;  // when no leader was there to see the event

  // The thread that spun last, until when the others leave the set to it, and since when it is inside a callback.
  std::atomic<const void*> hot_thread_ = nullptr;
  std::atomic<TimePoint> hot_until_ = TimePoint{};
  std::atomic<TimePoint> in_callback_since_ = TimePoint::max();
  std::atomic<std::uint32_t> spins_failed_ = 0;   // in a row
  std::atomic<std::uint32_t> spins_to_skip_ = 0;  // before the next try

  std::mutex watch_mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> slot_of_fd_;

  std::mutex strand_mutex_;
  std::deque<async::Callback> posted_;
  async::TimerQueue timers_;
  TimePoint armed_for_ = TimePoint::max();
  bool strand_runs_ = false;
  std::atomic<bool> strand_work_ = false;  // something was posted, or a timer may be due
  bool woken_ = false;                     // a poller comes for what is posted
};

}  // namespace pharos::net
