#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
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
  /// Runs the batches of one caller, or posted work. The strand runs one batch at a time.
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
  /// Runs the posted work, and the work that it posts in turn, even after stop().
  void run_posted();
  /// note_suspended() counts a call that has begun, waits for something, and will take its turn again. note_ended()
  /// says that such a call has ended.
  void note_suspended();
  void note_ended();
  /// Waits until no call runs or is suspended, or until the deadline.
  void wait_until_idle(async::Executor& executor, async::Deadline deadline);
  /// Lets no batch begin any more, waits until none is running, and then runs `last`. Returns false, without running
  /// `last`, if a batch is still running at the deadline.
  template <typename F>
  bool stop(async::Executor& executor, async::Deadline deadline, const F& last) {
    std::unique_lock lock{mutex_};
    stopped_ = true;
    if (!executor.wait(lock, idle_, deadline, [this] { return !running_; })) return false;
    running_ = true;
    lock.unlock();
    last();
    lock.lock();
    running_ = false;
    idle_.notify_all();
    return true;
  }

 private:
  struct Entry {
    std::shared_ptr<Runner> runner;
    net::FrameBatch batch;
  };
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Entry> entries_;
  std::size_t suspended_ = 0;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace pharos::actors
