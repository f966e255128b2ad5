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

#include "fibre.hpp"
#include "program/platform.hpp"
#include "world.hpp"

namespace pharos::detail {
class Caller;
}

namespace pharos::simulator {

class Network;
class Process;

/// A strand of a simulated process. What is posted runs one after the other, a little later each, on its fibres.
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

  /// For a process that has ended: runs one callback, if one is left.
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
  bool coming_ = false;  // an event is on its way for what is posted
};

/// What runs in a simulated process, as its main() composes it.
class Program {
 public:
  virtual ~Program() = default;
  /// Its process has ended. On a fibre of it, where nothing reaches anybody any more: whatever can be waited for ends,
  /// so that all fibres do, and the Program can be destroyed.
  virtual void end() = 0;
  /// What user code in it calls with.
  virtual std::shared_ptr<detail::Caller> caller() { return nullptr; }
  /// As waitpid() tells it.
  virtual void on_child_ended(pid_t, int) {}
};

/// One simulated process: an executor, fibres for threads, a program. It can be killed, stopped and continued at any
/// moment between two events.
/// Owned by the kernel; what belongs to it may outlive its end, but not the object.
class Process {
 public:
  Process(World& world, Network& network, std::string name, pid_t number, Process* parent);
  Process(Process&&) = delete;
  ~Process();

  /// Whose code runs; null outside.
  static Process* current();

  World& world() { return world_; }
  Network& network() { return network_; }
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
  /// How often something has happened in it.
  std::uint64_t runs() const { return runs_; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  /// It exits as soon as what it does now is done.
  bool ending() const { return ending_; }
  /// Nothing of it happens any more. Not from inside of it.
  void kill(std::string_view how);
  /// From inside: it is killed as soon as this fibre parks or ends. `status` is what its parent hears.
  void exit(int status = 0);
  /// Exit status of a process that has ended.
  int status() const { return status_; }
  /// What is to happen in it waits until proceed().
  void stop();
  void proceed();
  /// Called once, when it has ended.
  void on_end(async::Callback then) { on_end_ = std::move(then); }

  /// Lets `work` run on a fibre of it at that time; not if it has ended by then.
  void at(TimePoint when, async::Callback work);
  /// The same, as soon as a thread of it may come to it.
  void soon(async::Callback work);

  // For code on a fibre of it.
  /// Until wake() or the deadline; of a process that has ended, a moment.
  void park(async::Deadline deadline);
  /// Until something else has happened in this process, or the deadline.
  void park_until_something(async::Deadline deadline);
  void wake(Fibre& fibre, std::uint64_t park);
  void sleep(Duration time);

 private:
  class ProcessPlatform;
  class ProcessSleepers;
  void schedule(TimePoint when, async::Callback happen);
  void run(async::Callback work);
  void enter(Fibre& fibre, async::Callback work);
  void last_rites();

  World& world_;
  Network& network_;
  const std::string name_;
  const pid_t number_;
  Process* const parent_;
  int status_;
  std::uint64_t runs_ = 0;
  bool alive_ = true;
  bool ending_ = false;
  bool stopped_ = false;
  Duration afterlife_{};              // so that waits end which only the time can end
  std::deque<async::Callback> held_;  // while stopped
  std::list<Fibre> fibres_;
  struct Parked {
    Fibre* fibre;
    std::uint64_t park;
  };
  std::vector<Parked> watching_;  // until something happens
  ProcessExecutor executor_;
  std::vector<ProcessExecutor*> threads_;  // beside executor_
  std::shared_ptr<actors::Platform> platform_;
  std::unique_ptr<Program> program_;
  async::Callback on_end_;
};

}  // namespace pharos::simulator
