#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>

namespace bench {

/// An executor whose clock only moves in pass(), so that measured times contain work and no waiting. All callbacks run
/// in the thread that calls run(), run_until() or pass(). Any thread may post callbacks and set timers.
class OneThread final : public pharos::async::Executor {
 public:
  void post(pharos::async::Callback work) override {
    const std::lock_guard lock{mutex_};
    posted_.push_back(std::move(work));
    came_.notify_one();
  }
  pharos::TimePoint now() const override {
    const std::lock_guard lock{mutex_};
    return now_;
  }
  pharos::async::TimerId run_at(pharos::TimePoint when, pharos::async::Callback work) override {
    const std::lock_guard lock{mutex_};
    return timers_.add(when, std::move(work));
  }
  bool cancel(pharos::async::TimerId timer) override {
    std::unique_lock lock{mutex_};
    const auto work = timers_.cancel(timer);
    lock.unlock();
    return static_cast<bool>(work);
  }

  /// Runs all posted callbacks and due timers, and the callbacks that these post, until none is left.
  void run() {
    while (auto work = take()) work();
  }
  /// Runs callbacks until `done` returns true. Waits for callbacks that another thread posts, without a timeout.
  void run_until(const std::function<bool()>& done) {
    for (run(); !done(); run()) {
      std::unique_lock lock{mutex_};
      came_.wait(lock, [&] { return !posted_.empty(); });
    }
  }
  void pass(pharos::Duration time) {
    {
      const std::lock_guard lock{mutex_};
      now_ += time;
    }
    run();
  }

 private:
  pharos::async::Callback take() {
    const std::lock_guard lock{mutex_};
    if (posted_.empty()) return timers_.take_due(now_);
    auto work = std::move(posted_.front());
    posted_.pop_front();
    return work;
  }

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<pharos::async::Callback> posted_;
  pharos::async::TimerQueue timers_;
  pharos::TimePoint now_{std::chrono::hours{1}};
};

}  // namespace bench
