#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/timer_queue.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/link.hpp>

#include "program/platform.hpp"
#include "simulator/fibre.hpp"
#include "simulator/world.hpp"

namespace pharos::detail {
class Caller;
}

namespace pharos::simulator {

class Process;

/// A strand of a simulated process. Posted callbacks run one after the other on the process's fibres, each after a
/// short random delay.
class ProcessExecutor final : public async::Executor {
 public:
  explicit ProcessExecutor(Process& process) : process_{process} {}
  ~ProcessExecutor() override;

  void post(async::Callback work) override;
  TimePoint now() const override;
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override;
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, async::Deadline deadline,
            async::UniqueFunction<bool()> done) override;

  /// For a process that has ended: runs one callback if there is one left. Returns whether one was run.
  bool run_one_left();
  void drop_timers();

 private:
  void come_back();
  void run_one();
  void ring();

  Process& process_;
  std::deque<async::Callback> posted_;
  async::TimerQueue timers_;
  bool running_ = false;
  bool coming_ = false;  // an event that runs the next callback is scheduled
};

/// The code of a simulated process, composed as the main() of a real one does it.
class Program {
 public:
  virtual ~Program() = default;
  /// Called on a fibre of the process when the process has ended. Its messages are not delivered any more. Has to end
  /// everything that fibres wait for, so that all fibres end and the Program can be destroyed.
  virtual void end() = 0;
  /// The caller that user code in this process uses; null if the process runs no user code.
  virtual std::shared_ptr<detail::Caller> caller() { return nullptr; }
  /// Called with the number and the status of a child that has ended, as waitpid() returns them.
  virtual void on_child_ended(pid_t, int) {}
};

/// What a process asks of the network that it is on.
class Connections {
 public:
  virtual ~Connections() = default;
  /// Opens an end for code in this process.
  virtual std::shared_ptr<net::Link> open(Fd end, Process& process) = 0;
  /// Closes all ends of a process that has ended.
  virtual void end_of(Process& process) = 0;
};

/// One simulated process: an executor, fibres as threads, and a program. It can be killed, stopped and continued at any
/// moment between two events.
/// Owned by the kernel. Other objects may refer to a process that has ended, but none may outlive this object.
class Process {
 public:
  Process(World& world, Connections& network, std::string name, pid_t number, Process* parent);
  Process(Process&&) = delete;
  ~Process();

  /// The process whose code runs; null outside of all processes.
  static Process* current();

  World& world() { return world_; }
  Connections& network() { return network_; }
  const std::string& name() const { return name_; }
  /// The name without its number.
  std::string_view what() const { return std::string_view{name_}.substr(0, name_.rfind('.')); }
  pid_t number() const { return number_; }
  Process* parent() const { return parent_; }
  ProcessExecutor& executor() { return executor_; }
  const std::shared_ptr<actors::Platform>& platform() { return platform_; }
  void start(std::unique_ptr<Program> program) { program_ = std::move(program); }
  Program* program() { return program_.get(); }

  TimePoint now() const { return world_.now() + afterlife_; }
  /// How often code of this process has run. Changes whenever its state may have changed.
  std::uint64_t runs() const { return runs_; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  /// Returns whether exit() was called; the process then ends when its present fibre parks or ends.
  bool ending() const { return ending_; }
  /// Ends the process at once; no more of its events happen. Must not be called from inside of it.
  void kill(std::string_view how);
  /// Called from inside: the process is killed as soon as this fibre parks or ends. The parent is told `status`.
  void exit(int status = 0);
  /// Exit status of a process that has ended.
  int status() const { return status_; }
  /// Stops the process: its events wait until proceed().
  void stop();
  void proceed();
  /// `then` is called once, when the process has ended.
  void on_end(async::Callback then) { on_end_ = std::move(then); }

  /// Runs `work` on a fibre of this process at that time, unless the process has ended by then.
  void at(TimePoint when, async::Callback work);
  /// Runs `work` on a fibre after the short random delay that a thread needs to start.
  void soon(async::Callback work);

  // For code on a fibre of this process.
  /// Waits until wake() or the deadline. If the process has ended, returns after a moment in any case.
  void park(async::Deadline deadline);
  /// Waits until some other code of this process has run, or until the deadline.
  void park_until_something(async::Deadline deadline);
  void wake(Fibre& fibre, std::uint64_t park);
  void sleep(Duration time);
  /// Lets the process crash at once.
  [[noreturn]] void crash();

 private:
  class ProcessPlatform;
  class ProcessSleepers;
  void schedule(TimePoint when, async::Callback happen);
  void run(async::Callback work);
  void enter(Fibre& fibre, async::Callback work);
  void last_rites();

  World& world_;
  Connections& network_;
  const std::string name_;
  const pid_t number_;
  Process* const parent_;
  int status_;
  std::uint64_t runs_ = 0;
  bool alive_ = true;
  bool ending_ = false;
  bool stopped_ = false;
  Duration afterlife_{};              // added to the clock after the end, so that waits for a time end too
  std::deque<async::Callback> held_;  // events that wait while the process is stopped
  std::list<Fibre> fibres_;
  struct Parked {
    Fibre* fibre;
    std::uint64_t park;
  };
  std::vector<Parked> watching_;  // fibres in park_until_something()
  ProcessExecutor executor_;
  std::vector<ProcessExecutor*> threads_;  // the strands besides executor_
  std::shared_ptr<actors::Platform> platform_;
  std::unique_ptr<Program> program_;
  async::Callback on_end_;
};

}  // namespace pharos::simulator
