#pragma once

#include <condition_variable>
#include <mutex>

#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>

namespace pharos::async {

/// The identity of a timer, which Executor::run_at returns. An executor never uses an id twice.
using TimerId = Id<struct TimerTag>;

/// Runs callbacks one after the other. An executor is a strand: data that only its callbacks touch needs no lock. The
/// executor is also the clock of the code that runs on it, so that a test or the simulator can control both.
///
/// Owned by the code that builds the object graph; outlives all objects that have a reference to it.
/// Threads: any thread may call every member. Callbacks never run at the same time as each other, and never inside
/// post(), run_at() or cancel(). A callback sees all memory writes that were made before its post().
/// Order: posted callbacks run in the order in which they were posted; timers by time, then in the order of run_at().
/// Failure: no member fails. A callback must not throw, because no executor catches an exception. End: each executor
/// says what its destructor does with work that has not run. Bounds: the executor sets none. Code that posts on outside
/// events (from a socket or a user's thread) must limit itself. A coroutine has at most one callback and one timer
/// outstanding.
class PHAROS_API Executor : public Clock {
 public:
  ~Executor() override;

  /// Runs `work` soon. Does not touch the executor after the moment from which the work may have run, because the
  /// owner may wait for this work to destroy the executor.
  virtual void post(Callback work) = 0;

  TimePoint now() const override = 0;

  /// Runs `work` once now() has reached `when`. If `when` is past already, the callbacks that are posted run first.
  virtual TimerId run_at(TimePoint when, Callback work) = 0;

  /// Returns true if this call has cancelled the timer: its work is destroyed and never runs. Returns false if the work
  /// has run, is running, is about to run, or was cancelled before.
  virtual bool cancel(TimerId timer) = 0;

  /// Waits until `done` returns true, for a thread that is not the executor's. `done` is called with the lock held, at
  /// first and after each notification of `changed`. Returns the last answer of `done`, which is false if the deadline
  /// (by this executor's clock) passed first. The simulator, which has fibres and no threads, overrides it.
  virtual bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
                    UniqueFunction<bool()> done);

 protected:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
};

}  // namespace pharos::async
