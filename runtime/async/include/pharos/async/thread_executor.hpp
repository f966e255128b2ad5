#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>

namespace pharos::async {

/// An executor with its own thread, by the machine's clock. For background work that waits for no descriptor, and for
/// tests.
///
/// Owned by the object whose work it runs, and outlives all objects that run on it. Threads: any thread may call it,
/// and only its own thread runs callbacks. Failure: a callback that throws ends the process. The constructor throws
/// std::system_error if the system gives no thread. End: the destructor lets the posted callbacks and the due timers
/// run, with all callbacks that they post. It drops the timers that are not due, and joins the thread. A destructor
/// call from within a callback aborts the process. Bounds: none, see Executor.
class PHAROS_API ThreadExecutor final : public Executor {
 public:
  /// `name` is the thread's name in debuggers and top, cut to 15 characters.
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
  std::thread thread_;  // last member, because the thread uses all members above
};

}  // namespace pharos::async
