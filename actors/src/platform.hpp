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

/// How threads sleep until a word changes. May outlive its platform, as a result may that somebody waits for.
class Sleepers : public Clock {
 public:
  /// Until wake() or the deadline, unless the word is no longer that, or now and then for no reason.
  virtual void sleep(std::atomic<std::uint32_t>& word, std::uint32_t value, async::Deadline deadline) = 0;
  virtual void wake(std::atomic<std::uint32_t>& word) = 0;
};

/// What the callers and callees of one process stand on: a strand with its clock, connections, alarms, and threads that
/// wait. A process has a ReactorPlatform; the simulator has another, whose threads are fibres.
/// Made by whoever composes the process, and shared by handles, which may outlive it. Any thread.
class Platform : public Clock {
 public:
  /// Rings some time after it was set, on any thread that reads, though the executor may be busy. Not after it is gone,
  /// but a ring that has begun may still be under way.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void set(Duration from_now) = 0;
  };
  /// Rings soon after ring(), once or as often, on any thread that reads, though the executor may be busy: what it does
  /// may take long, and wait for what others read. Ends as an Alarm does.
  class Bell {
   public:
    virtual ~Bell() = default;
    virtual void ring() = 0;
  };
  /// Inside a callback: as long as one lives, this thread runs code that takes long or waits.
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

  /// A connection for calls, over this socket; not started.
  virtual std::shared_ptr<net::Link> make_call_link(Fd socket) = 0;
  virtual std::unique_ptr<Alarm> make_alarm(async::Callback ring) = 0;
  virtual std::unique_ptr<Bell> make_bell(async::Callback ring) = 0;
  /// A thread for code that may take long.
  virtual std::unique_ptr<async::Executor> make_thread(const char* name) = 0;

  // How threads wait for a word; see WaitingRoom.
  /// Reads by itself, for one event or until interrupt_leader() or the deadline. One thread at a time.
  virtual void lead(async::Deadline deadline) = 0;
  virtual void interrupt_leader() = 0;
  virtual std::shared_ptr<Sleepers> sleepers() = 0;
  /// Lets other threads run.
  virtual void yield() = 0;

  /// In the child after a fork: the parent's connections are none of its business.
  virtual void abandon_after_fork() = 0;

 protected:
  /// What end_detour() is to be given.
  virtual const void* begin_detour() = 0;
  virtual void end_detour(const void* left) = 0;
};

}  // namespace pharos::actors
