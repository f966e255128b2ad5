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

/// The order in which one worker runs what its callers send: one call at a time. Whichever thread brings calls runs
/// them, and all that come meanwhile, so a call needs no hand-off; a thread that brings more goes back to reading.
/// Any thread. Bounds: none of its own; each runner counts its batches that wait here, and stops reading.
class Strand {
 public:
  /// What runs a batch; its thread holds the strand meanwhile.
  class Runner {
   public:
    virtual ~Runner() = default;
    virtual void run(net::FrameBatch batch, bool more_follow) = 0;
    /// Sends it back instead of running it.
    virtual void give_back(net::FrameBatch batch) = 0;
    /// Everything that was there has run.
    virtual void on_drained() = 0;
  };

  /// True when a thread runs already, which will come to it.
  bool push(std::shared_ptr<Runner> runner, net::FrameBatch batch);
  /// Runs until nothing is left, unless another thread does so already.
  void run();
  /// Sends back all that waits. Any thread, also the one that runs.
  void give_back_waiting();
  /// Runs what was posted, and what that posts, though it was stopped.
  void run_posted();
  /// A call that has begun waits for something, and will take its turn again; and such a one has come to its end.
  void note_suspended();
  void note_ended();
  /// Until none runs or is suspended, or the deadline.
  void wait_until_idle(async::Executor& executor, async::Deadline deadline);
  /// Lets no call begin any more, and runs this as the last one when none is running. False when one is, at the
  /// deadline.
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
