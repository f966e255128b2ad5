#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>

namespace pharos::async {

/// An executor on one thread of its own, by the machine's clock. For background work that waits for no descriptor,
/// and for tests.
///
/// Owned by the object graph, above everything that runs on it. Threads: any may call it; none but its own runs
/// callbacks. End: the destructor lets what is posted run, with all that it posts in turn, drops the timers and joins
/// the thread; not from within a callback. Bounds: none, see Executor.
class PHAROS_API ThreadExecutor final : public Executor {
 public:
  /// `name` is what debuggers and top show; at most 15 characters of it.
  explicit ThreadExecutor(std::string name);
  ~ThreadExecutor() override;

  void post(Callback work) override;
  TimePoint now() const override;
  TimerId run_at(TimePoint when, Callback work) override;
  bool cancel(TimerId timer) override;

 private:
  void run_callbacks();
  bool wait_for_work(std::deque<Callback>& batch);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Callback> posted_;
  TimerQueue timers_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pharos::async
