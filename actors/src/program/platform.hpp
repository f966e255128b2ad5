#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/link.hpp>

namespace pharos::actors {

/// Lets threads sleep until a word in memory changes. Shared by the platform and the WaitingRooms. Any thread. Never
/// fails. May outlive its platform, because a result that a thread waits for may outlive it.
class Sleepers : public Clock {
 public:
  /// Sleeps until wake() or the deadline. Returns at once if the word does not have this value, and may return for no
  /// reason.
  virtual void sleep(std::atomic<std::uint32_t>& word, std::uint32_t value, async::Deadline deadline) = 0;
  /// Wakes all threads that sleep on this word.
  virtual void wake(std::atomic<std::uint32_t>& word) = 0;
};

/// The environment of the callers and callees in one process: a strand with its clock, connections, alarms, and a way
/// for threads to wait. A process has a ReactorPlatform; the simulator has another platform, whose threads are fibres.
/// Made by the Driver or the worker, and shared with handles, which may outlive these. Any thread. A system call that
/// fails aborts the process. Alarms, bells and links use the platform, so it must outlive them.
class Platform : public Clock {
 public:
  /// A timer: runs its callback the given time after set(), on any thread that polls, even if the executor is busy. A
  /// later set() replaces the time. The callback does not begin after the alarm's destruction, but one that has begun
  /// may still be running then.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void set(Duration from_now) = 0;
  };
  /// Runs its callback soon after ring(), on any thread that polls, even if the executor is busy. After several calls
  /// of ring() the callback runs at least once, and at most as often. It may take long, and may wait for what other
  /// threads read. Ends as an Alarm does.
  class Bell {
   public:
    virtual ~Bell() = default;
    virtual void ring() = 0;
  };
  /// Made inside a callback. While it lives, this thread runs code that takes long or waits, so that the platform does
  /// not count on the thread's early return.
  class Detour {
   public:
    explicit Detour(Platform& platform) : platform_{platform}, left_{platform.begin_detour()} {}
    Detour(Detour&&) = delete;
    ~Detour() { platform_.end_detour(left_); }

   private:
    Platform& platform_;
    const void* const left_;
  };

  virtual async::Executor& executor() = 0;

  /// Makes a link for calls over this socket. The link is not started.
  virtual std::shared_ptr<net::Link> make_call_link(Fd socket) = 0;
  virtual std::unique_ptr<Alarm> make_alarm(async::Callback ring) = 0;
  virtual std::unique_ptr<Bell> make_bell(async::Callback ring) = 0;
  /// Starts a thread with this name, for code that may take long. The executor's destructor lets the work that was
  /// posted run, and ends the thread; the thread itself must not call it.
  virtual std::unique_ptr<async::Executor> make_thread(const char* name) = 0;

  // The following functions let threads wait for a word; see WaitingRoom.
  /// Polls on this thread until one event has been handled, until interrupt_leader() or until the deadline. Only one
  /// thread may lead at a time.
  virtual void lead(async::Deadline deadline) = 0;
  virtual void interrupt_leader() = 0;
  virtual std::shared_ptr<Sleepers> sleepers() = 0;
  /// Lets other threads run.
  virtual void yield() = 0;

  /// Called in the child after a fork(): closes the child's copies of the parent's connections.
  virtual void abandon_after_fork() = 0;

 protected:
  /// Returns the value to be passed to end_detour().
  virtual const void* begin_detour() = 0;
  virtual void end_detour(const void* left) = 0;
};

}  // namespace pharos::actors
