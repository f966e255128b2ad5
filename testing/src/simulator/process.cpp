#include "simulator/process.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <pharos/base/check.hpp>

#include "caller/caller.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHandOffMax = 20us;  // longest time until a thread starts with work that is ready
constexpr Duration kLastRound = 1ms;    // how far the clock advances in each round of last_rites()
constexpr int kLastRoundsMax = 20'000;

Process* running = nullptr;

}  // namespace

// ---- ProcessExecutor

ProcessExecutor::~ProcessExecutor() {
  PHAROS_CHECK(!running_);
}

TimePoint ProcessExecutor::now() const {
  return process_.now();
}

void ProcessExecutor::post(async::Callback work) {
  posted_.push_back(std::move(work));
  come_back();
}

void ProcessExecutor::come_back() {
  if (coming_ || running_ || posted_.empty() || !process_.alive()) return;
  coming_ = true;
  process_.soon([this] { run_one(); });
}

void ProcessExecutor::run_one() {
  coming_ = false;
  if (running_ || posted_.empty()) return;
  running_ = true;
  async::Callback work = std::move(posted_.front());
  posted_.pop_front();
  work();
  work = {};
  running_ = false;
  come_back();
}

bool ProcessExecutor::run_one_left() {
  if (running_ || posted_.empty()) return false;
  run_one();
  return true;
}

async::TimerId ProcessExecutor::run_at(TimePoint when, async::Callback work) {
  const async::TimerId timer = timers_.add(when, std::move(work));
  process_.at(when, [this] { ring(); });
  return timer;
}

void ProcessExecutor::ring() {
  for (async::Callback work = timers_.take_due(now()); work; work = timers_.take_due(now())) post(std::move(work));
}

bool ProcessExecutor::cancel(async::TimerId timer) {
  return static_cast<bool>(timers_.cancel(timer));
}

void ProcessExecutor::drop_timers() {
  timers_ = {};
}

bool ProcessExecutor::wait(std::unique_lock<std::mutex>& lock, std::condition_variable&, async::Deadline deadline,
                           async::UniqueFunction<bool()> done) {
  while (!done()) {
    if (deadline.expired(now())) return false;
    lock.unlock();
    process_.park_until_something(deadline);
    lock.lock();
  }
  return true;
}

// ---- The platform of the shipped code

class Process::ProcessSleepers final : public actors::Sleepers {
 public:
  explicit ProcessSleepers(Process& process) : process_{process} {}

  TimePoint now() const override { return process_.now(); }
  void sleep(std::atomic<std::uint32_t>& word, std::uint32_t value, async::Deadline deadline) override {
    if (word.load() != value) return;
    const auto place = sleeping_.emplace(&word, Fibre::current());
    process_.park(deadline);
    sleeping_.erase(place);
  }
  void wake(std::atomic<std::uint32_t>& word) override {
    const auto [begin, end] = sleeping_.equal_range(&word);
    for (auto each = begin; each != end; ++each) process_.wake(*each->second, each->second->parks());
  }

 private:
  Process& process_;
  std::multimap<const void*, Fibre*> sleeping_;  // never iterated: addresses differ from run to run
};

class Process::ProcessPlatform final : public actors::Platform, public std::enable_shared_from_this<ProcessPlatform> {
 public:
  explicit ProcessPlatform(Process& process) : process_{process} {}

  TimePoint now() const override { return process_.now(); }
  async::Executor& executor() override { return process_.executor(); }
  std::shared_ptr<net::Link> make_call_link(Fd socket) override {
    return process_.network().open(std::move(socket), process_);
  }
  std::unique_ptr<Alarm> make_alarm(async::Callback ring) override {
    return std::make_unique<ProcessAlarm>(process_, std::move(ring));
  }
  std::unique_ptr<Bell> make_bell(async::Callback ring) override {
    return std::make_unique<ProcessBell>(process_, std::move(ring));
  }
  std::unique_ptr<async::Executor> make_thread(const char*) override { return std::make_unique<Thread>(process_); }

  void lead(async::Deadline deadline) override {
    if (std::exchange(interrupted_, false)) return;
    leader_ = Fibre::current();
    process_.park(deadline);
    leader_ = nullptr;
    interrupted_ = false;
  }
  void interrupt_leader() override {
    interrupted_ = true;
    if (leader_ != nullptr) process_.wake(*leader_, leader_->parks());
  }
  std::shared_ptr<actors::Sleepers> sleepers() override { return std::make_shared<ProcessSleepers>(process_); }
  void yield() override { process_.park(async::Deadline::after(1us, *this)); }
  void abandon_after_fork() override { PHAROS_CHECK(Process::current() == nullptr); }

 private:
  class ProcessAlarm final : public Alarm {
   public:
    ProcessAlarm(Process& process, async::Callback ring)
        : process_{process}, ring_{std::make_shared<async::Callback>(std::move(ring))} {}
    void set(Duration from_now) override {
      process_.at(process_.world().now() + from_now, [weak = std::weak_ptr{ring_}] {
        if (const auto ring = weak.lock()) (*ring)();
      });
    }

   private:
    Process& process_;
    std::shared_ptr<async::Callback> ring_;
  };

  class ProcessBell final : public Bell {
   public:
    ProcessBell(Process& process, async::Callback ring)
        : process_{process}, ring_{std::make_shared<async::Callback>(std::move(ring))} {}
    void ring() override {
      process_.soon([weak = std::weak_ptr{ring_}] {
        if (const auto ring = weak.lock()) (*ring)();
      });
    }

   private:
    Process& process_;
    std::shared_ptr<async::Callback> ring_;
  };

  /// Another strand of the process. The destructor waits until all posted callbacks have run.
  class Thread final : public async::Executor {
   public:
    explicit Thread(Process& process) : process_{process}, strand_{process} { process_.threads_.push_back(&strand_); }
    ~Thread() override {
      bool done = false;
      strand_.post([&] { done = true; });
      while (!done) process_.park_until_something(async::Deadline::never());
      std::erase(process_.threads_, &strand_);
    }
    void post(async::Callback work) override { strand_.post(std::move(work)); }
    TimePoint now() const override { return strand_.now(); }
    async::TimerId run_at(TimePoint when, async::Callback work) override {
      return strand_.run_at(when, std::move(work));
    }
    bool cancel(async::TimerId timer) override { return strand_.cancel(timer); }

   private:
    Process& process_;
    ProcessExecutor strand_;
  };

  const void* begin_detour() override { return nullptr; }
  void end_detour(const void*) override {}

  Process& process_;
  Fibre* leader_ = nullptr;
  bool interrupted_ = false;
};

// ---- Process

Process::Process(World& world, Connections& network, std::string name, pid_t number, Process* parent)
    : world_{world},
      network_{network},
      name_{std::move(name)},
      number_{number},
      parent_{parent},
      status_{SIGKILL},
      executor_{*this},
      platform_{std::make_shared<ProcessPlatform>(*this)} {}

Process::~Process() {
  PHAROS_CHECK(!alive_, name_);
}

Process* Process::current() {
  return running;
}

// Events of a stopped process wait until it continues.
void Process::schedule(TimePoint when, async::Callback happen) {
  if (!alive_) return;
  world_.at(when, [this, happen = std::move(happen)]() mutable {
    if (!alive_) return;
    if (stopped_) {
      held_.push_back(std::move(happen));
    } else {
      happen();
    }
  });
}

void Process::at(TimePoint when, async::Callback work) {
  schedule(when, [this, work = std::move(work)]() mutable { run(std::move(work)); });
}

void Process::soon(async::Callback work) {
  at(world_.now() + world_.lots().between(Duration{0}, kHandOffMax), std::move(work));
}

// The work may make true what a fibre in park_until_something() waits for, so it wakes all of them.
void Process::run(async::Callback work) {
  const std::vector<Parked> watching = std::exchange(watching_, {});
  auto idle = std::find_if(fibres_.begin(), fibres_.end(), [](const Fibre& fibre) { return fibre.idle(); });
  if (idle == fibres_.end()) idle = fibres_.emplace(fibres_.end(), static_cast<pid_t>(fibres_.size() + 1));
  enter(*idle, std::move(work));
  for (const Parked& each : watching) wake(*each.fibre, each.park);
}

void Process::enter(Fibre& fibre, async::Callback work) {
  ++runs_;
  Process* const outer = std::exchange(running, this);
  if (program_ != nullptr) detail::set_caller_of_worker(program_->caller());
  if (work) {
    fibre.run(std::move(work));
  } else {
    fibre.resume();
  }
  detail::set_caller_of_worker(nullptr);
  running = outer;
}

void Process::wake(Fibre& fibre, std::uint64_t park) {
  schedule(world_.now() + world_.lots().between(Duration{0}, kHandOffMax), [this, &fibre, park] {
    if (fibre.parked() && fibre.parks() == park) enter(fibre, {});
  });
}

void Process::park(async::Deadline deadline) {
  Fibre& fibre = *Fibre::current();
  const std::uint64_t park = fibre.parks() + 1;
  if (!deadline.is_never()) {
    schedule(deadline.when(), [this, &fibre, park] {
      if (fibre.parked() && fibre.parks() == park) enter(fibre, {});
    });
  }
  fibre.park();
}

void Process::park_until_something(async::Deadline deadline) {
  watching_.push_back({Fibre::current(), Fibre::current()->parks() + 1});
  park(deadline);
}

void Process::sleep(Duration time) {
  park(async::Deadline::after(time, world_));
}

void Process::crash() {
  exit(SIGSEGV);
  park(async::Deadline::never());
  throw std::exception{};  // park() returns once the process has ended; its code must not go on
}

void Process::stop() {
  if (!alive_ || std::exchange(stopped_, true)) return;
  world_.note(name_, "stopped");
}

void Process::proceed() {
  if (!alive_ || !std::exchange(stopped_, false)) return;
  world_.note(name_, "continued");
  std::int64_t place = 0;
  for (async::Callback& happen : std::exchange(held_, {}))
    schedule(world_.now() + Duration{++place}, std::move(happen));
}

void Process::exit(int status) {
  if (!alive_ || std::exchange(ending_, true)) return;
  status_ = status;
  world_.at(world_.now(), [this] { kill("exits"); });
}

void Process::kill(std::string_view how) {
  if (!alive_) return;
  world_.note(name_, how);
  alive_ = false;
  held_.clear();
  network_.end_of(*this);
  // In last_rites() some code runs in the order of addresses, which differs from run to run. Restoring the lots keeps
  // the rest of the run the same.
  const Lots lots = world_.lots();
  last_rites();
  world_.lots() = lots;
  if (on_end_) std::exchange(on_end_, {})();
}

// The kernel frees the memory of a real process when it ends. Here the code has to run to its end to free it.
void Process::last_rites() {
  if (program_ != nullptr) run([this] { program_->end(); });
  const auto at_rest = [this] {
    return std::all_of(fibres_.begin(), fibres_.end(), [](const Fibre& fibre) { return fibre.idle(); });
  };
  bool left = true;
  for (int round = 0; left || !at_rest(); ++round) {
    PHAROS_CHECK(round < kLastRoundsMax, name_, "a fibre of a process that has ended waits for something");
    afterlife_ += kLastRound;
    left = false;
    std::vector<ProcessExecutor*> strands = threads_;
    strands.push_back(&executor_);
    for (ProcessExecutor* const strand : strands) {
      run([this, &left, strand] {
        const bool there =
            strand == &executor_ || std::find(threads_.begin(), threads_.end(), strand) != threads_.end();
        if (there && strand->run_one_left()) left = true;
      });
    }
    std::vector<Fibre*> parked;
    for (Fibre& fibre : fibres_) {
      if (fibre.parked()) parked.push_back(&fibre);
    }
    for (Fibre* const fibre : parked) enter(*fibre, {});
  }
  program_.reset();
  executor_.drop_timers();
  platform_.reset();
  watching_.clear();
}

}  // namespace pharos::simulator
