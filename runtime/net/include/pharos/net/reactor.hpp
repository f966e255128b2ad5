#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/epoll_set.hpp>
#include <pharos/net/spin_turns.hpp>

struct epoll_event;

namespace pharos::net {

/// Waits for descriptors and timers, and runs posted callbacks. It wraps the epoll set of one daemon, driver or worker.
///
/// Any number of threads may poll. Every registration is edge-triggered, so that each event goes to one thread, and the
/// kernel wakes the thread that began to wait last. The speed of a call depends on three consequences:
///   1. A thread that blocks for a result polls the set itself and receives its reply without a hand-off. A background
///      thread that waits on the same set does not get the reply, because it began to wait earlier.
///   2. While one thread is inside a long callback, the next event wakes another thread at once.
///   3. Where calls follow each other closely, a thread spins for some microseconds before it sleeps and finds the next
///      event without being woken. A wake-up between two CPUs costs more than the rest of a call. Threads stop spinning
///      when spinning finds no events. Other threads stay out of the set while one spins, because otherwise each event
///      would wake them. They check every 50 us to 1 ms whether a callback holds the spinning thread up, and then take
///      over.
/// As an Executor the reactor is a strand: posted work and timers run one after the other, on any thread that polls.
///
/// Owned by the object that composes the process; outlives every descriptor that is registered in it.
/// Threads: any thread may call every member, except abandon_after_fork(). Watchers are called outside of the strand,
/// on any thread that polls. Failure: a failed system call is a bug and aborts the process. Watchers and posted work
/// must not throw: poll_one() does not catch exceptions.
/// End: no thread may be inside poll_one() when the reactor is destroyed. The destructor destroys posted work and
/// timers that have not run. Bounds: none, see Executor.
class Reactor final : public async::Executor {
 public:
  using Watcher = net::Watcher;
  enum class Poller : std::uint8_t {
    kBackground,  ///< a thread that never spins
    kServer,      ///< a worker's thread; it spins, because the next call may be on its way
    kLeader,      ///< a user's thread that waits for a result; it spins. At most one at a time; interrupt() wakes it
  };

  Reactor();
  ~Reactor() override;

  /// Registers a descriptor, which must not be registered already. `events` is EPOLLIN, EPOLLOUT or both. The caller
  /// still owns the descriptor. The reactor keeps the watcher alive until unwatch().
  void watch(int fd, std::uint32_t events, std::shared_ptr<Watcher> watcher) {
    set_.watch(fd, events, std::move(watcher));
  }
  /// Changes the events of a registered descriptor. Does nothing if the descriptor is not registered.
  void change(int fd, std::uint32_t events) { set_.change(fd, events); }
  /// Removes a descriptor; does nothing if the descriptor is not registered. Call this before closing the descriptor.
  /// An on_ready() may still be running, or may begin once more on a thread that found the watcher before.
  void unwatch(int fd) { set_.unwatch(fd); }

  /// Waits for one event until the deadline at most, and handles it: runs the watcher, then posted work and due timers.
  /// May return without an event, for example while another thread spins.
  void poll_one(async::Deadline deadline, Poller role = Poller::kBackground);

  /// Makes poll_one() of the leader return. If no leader is inside poll_one(), the next one returns at once.
  void interrupt();

  /// Work that a descriptor's callback posts runs after that callback, or earlier if another event wakes a thread.
  void post(async::Callback work) override;
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override;
  /// May also be called from inside a descriptor's callback: posted work then runs on another thread that polls.
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, async::Deadline deadline,
            async::UniqueFunction<bool()> done) override;

  /// A pair of calls inside a callback, around code that takes long or waits. In between, the reactor does not rely on
  /// this thread to run posted work soon, and wakes another thread for it. `left` is the result of begin_detour().
  const void* begin_detour();
  void end_detour(const void* left);

  /// For the only thread of a child process after a fork: closes the child's copies of all descriptors, so that peers
  /// see when the parent closes its own. The numbers of watched descriptors lead to nobody then, and stay taken until
  /// their owners close them. Afterwards the reactor can only be destroyed.
  void abandon_after_fork();

 private:
  bool gives_way(Poller role);
  bool spin(epoll_event& event, Poller role, async::Deadline deadline);
  bool sleep(epoll_event& event, async::Deadline deadline);
  void handle(const epoll_event& event, Poller role);
  void run_strand();
  bool run_one_of_strand();
  void arm(std::unique_lock<std::mutex>& lock);
  void signal(int fd);
  void leave_to_leader();

  EpollSet set_;
  std::shared_ptr<const Fd> post_event_;  // edge-triggered: work was posted
  Fd interrupt_event_;                    // level-triggered: stays readable until the leader drains it
  Fd timer_event_;
  std::atomic<bool> leader_waits_ = false;
  std::atomic<bool> interrupted_ = false;  // interrupt() was called while no leader polled
  SpinTurns spins_;

  std::mutex strand_mutex_;
  std::deque<async::Callback> posted_;
  async::TimerQueue timers_;
  TimePoint armed_for_ = TimePoint::max();
  bool strand_runs_ = false;
  // Work was posted, or a timer may be due. Changed under strand_mutex_. Who reads false does without the mutex:
  // whoever posts afterwards sees to it that a thread comes.
  std::atomic<bool> strand_work_ = false;
  bool woken_ = false;  // post_event_ was signalled, so a thread will come for the posted work
};

}  // namespace pharos::net
