#pragma once

#include <condition_variable>
#include <mutex>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>

namespace pharos::async {

/// One call of Executor::run_at. Never used twice by one executor.
using TimerId = Id<struct TimerTag>;

/// Runs callbacks one after the other: an executor is a strand, and what only its callbacks touch needs no lock.
/// It is also the clock of everything that runs on it, so that a test or the simulator can drive both.
///
/// Owned by whoever builds the object graph; outlives everything that was given a reference to it.
/// Threads: every member may be called from any thread. Callbacks never run at the same time as each other, and never
/// inside post(), run_at() or cancel(). What happened before post() is seen by the callback.
/// Order: posted callbacks run in the order in which they were posted; timers by time, then in the order of run_at().
/// Failure: a callback must not throw. Bounds: the executor sets none; whoever posts without being asked (a socket, a
/// user's thread) must hold back by itself. A coroutine has at most one callback and one timer outstanding.
class PHAROS_API Executor : public Clock {
 public:
  ~Executor() override;

  /// Runs `work` soon. Touches nothing of the executor once the work may have run: that may have been what its owner
  /// was waiting for to destroy it.
  virtual void post(Callback work) = 0;

  TimePoint now() const override = 0;

  /// Runs `work` once now() has reached `when`; not before the callbacks that are already posted if it has.
  virtual TimerId run_at(TimePoint when, Callback work) = 0;

  /// True if the timer's work will never run, because of this call; false if it has run, is running, is about to, or
  /// was cancelled before. The work is destroyed before this returns true.
  virtual bool cancel(TimerId timer) = 0;

  /// For a thread that is not the executor's: waits with the lock until `done`, which `changed` says to look at again.
  /// False at the deadline, which is by this executor's clock. The simulator, whose threads are none, waits otherwise.
  virtual bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
                    UniqueFunction<bool()> done);

 protected:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
};

}  // namespace pharos::async
