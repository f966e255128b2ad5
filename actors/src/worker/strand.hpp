#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/mutex.hpp>
#include <pharos/net/link.hpp>

namespace pharos::actors {

/// The queue from which one worker runs the calls of its callers, one call at a time. The thread that brings a batch of
/// calls runs it, and all batches that come meanwhile, so that a call needs no hand-off between threads. A thread that
/// brings a batch while another one runs goes back to reading.
/// Owned by Workplace. Any thread. It has no bound of its own: each runner counts its batches that wait here, and
/// stops reading at its own bound. stop() ends it; batches that wait then are never run, unless give_back_waiting()
/// returns them to their callers.
class Strand {
 public:
  /// Runs the batches of one caller, or posted work. The strand runs one batch at a time, on the thread that is in
  /// run(), and shares the runner until its batches have run. run() must not throw.
  class Runner {
   public:
    virtual ~Runner() = default;
    /// Runs a batch. `more_follow`: other batches wait behind it.
    virtual void run(net::FrameBatch batch, bool more_follow) = 0;
    /// Sends the calls of a batch back to the caller instead of running them. Any thread.
    virtual void give_back(net::FrameBatch batch) = 0;
    /// Called after this runner's batch if no other batch waits.
    virtual void on_drained() = 0;
  };

  /// Queues a batch; an empty one stands for posted work. Returns true if a thread is running batches, which will run
  /// this one, too. Otherwise the caller lets a thread call run().
  bool push(std::shared_ptr<Runner> runner, net::FrameBatch batch);
  /// Runs batches until none is left. Returns at once if another thread does so already, or after stop().
  void run();
  /// Gives all batches that wait back to their callers, but not posted work. Any thread, also the one that runs a
  /// batch.
  void give_back_waiting();
  /// Runs the posted work, and the work that it posts in turn, even after stop(). Only while no other thread runs
  /// batches.
  void run_posted();
  /// note_suspended() counts a call that has begun, waits for something, and will take its turn again. note_ended()
  /// says that such a call has ended.
  void note_suspended();
  void note_ended();
  /// Waits until no call runs or is suspended, or until the deadline; does not say which.
  void wait_until_idle(async::Executor& executor, async::Deadline deadline);
  /// Lets no batch begin any more, waits until none is running, and then runs `last`, on this thread. Returns false,
  /// without running `last`, if a batch is still running at the deadline.
  template <typename F>
  bool stop(async::Executor& executor, async::Deadline deadline, const F& last) {
    {
      const std::lock_guard lock{mutex_};
      stopped_ = true;
    }
    // `last` counts as a batch that runs: another stop() waits for its end.
    if (!wait(executor, deadline, [this] { return !std::exchange(running_, true); })) return false;
    last();
    {
      const std::lock_guard lock{mutex_};
      running_ = false;
    }
    wake_waiting();
    return true;
  }

 private:
  struct Entry {
    std::shared_ptr<Runner> runner;
    net::FrameBatch batch;
  };
  // Waits until the condition, which runs under mutex_, is true. Returns false at the deadline.
  bool wait(async::Executor& executor, async::Deadline deadline, const std::function<bool()>& condition);
  // Wakes the threads in wait(). Called without mutex_, after running_ or suspended_ has changed.
  void wake_waiting();

  Mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t suspended_ = 0;
  bool running_ = false;
  bool stopped_ = false;
  // Threads in wait() sleep here. They are rare, so a thread that leaves run() looks at their number first.
  std::atomic<std::size_t> waiting_ = 0;
  std::mutex waiting_mutex_;
  std::condition_variable changed_;
};

}  // namespace pharos::actors
