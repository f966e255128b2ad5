#include "cluster.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <pharos/async/block_on.hpp>

#include "caller.hpp"
#include "calls.hpp"
#include "function_table.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFlushDelayMax = 200us;
constexpr Duration kForkMin = 300us;
constexpr Duration kForkMax = 4ms;
constexpr Duration kReapMax = 3ms;  // until the node knows that a process has ended
constexpr auto kStartTime = 60s;
constexpr auto kStopTime = 10s;

// What stands for an open file in a message that has one.
std::vector<Fd> some_file() {
  std::vector<Fd> files;
  files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return files;
}

}  // namespace

// ---- A driver, as detail::Driver composes it

class Cluster::DriverProgram final : public Program, public net::Peer::Owner {
 public:
  DriverProgram(Process& process, Fd node)
      : process_{process},
        caller_{
            detail::Caller::make(process.platform(), actors::FlushQueue::make(*process.platform(), kFlushDelayMax))} {
    const auto link = process.network().open(std::move(node), process);
    node_ = net::Peer::make(process.executor(), link, *this);
    link->start(node_);
  }

  void run(const std::function<void(Runtime&)>& main) {
    if (register_job()) {
      Runtime runtime;
      main(runtime);
    }
    if (!process_.alive()) return;
    stop();
    process_.exit();
  }

  void end() override {
    node_->close();
    caller_->end();
  }
  std::shared_ptr<detail::Caller> caller() override { return caller_; }

 private:
  bool register_job() {
    const auto deadline = async::Deadline::after(kStartTime, process_.executor());
    const auto answer =
        async::block_on(process_.executor(), node_->request(wire::RegisterJob{}, some_file(), deadline));
    if (!answer) return false;
    caller_->join(node_, std::get<wire::JobRegistered>(answer->message));
    return true;
  }

  void stop() {
    stopping_ = true;
    caller_->close();
    async::block_on(process_.executor(), stop_job(this));
  }
  static async::Async<void> stop_job(DriverProgram* self) {
    const auto deadline = async::Deadline::after(kStopTime, self->process_.executor());
    wire::Message ask = wire::Stop{};
    [[maybe_unused]] const auto done = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, deadline);
    self->node_->close();
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) override {
    caller_->on_node_message(parcel.message);
  }
  void on_peer_closed(net::Peer&, const Error& why) override {
    if (stopping_) return;
    caller_->lose_everything(
        Error{ErrorCode::kRuntimeStopped, "the node that served this program is gone: " + why.message()});
  }

  Process& process_;
  const std::shared_ptr<detail::Caller> caller_;
  std::shared_ptr<net::Peer> node_;
  bool stopping_ = false;
};

// ---- A worker, as actors::run_worker composes it

class Cluster::WorkerProgram final : public Program, public net::Peer::Owner {
 public:
  WorkerProgram(Process& process, Fd node) : process_{process}, calls_{process.platform()} {
    const auto link = process.network().open(std::move(node), process);
    node_ = net::Peer::make(process.executor(), link, *this);
    link->start(node_);
  }
  void begin(WorkerId id) { node_->send(wire::WorkerForked{id, 1}, some_file()); }

  void end() override {
    node_->close();
    calls_.caller()->end();
    calls_.stop();
  }
  std::shared_ptr<detail::Caller> caller() override { return calls_.caller(); }

 private:
  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) override {
    if (std::holds_alternative<wire::EndWorker>(parcel.message)) {
      calls_.stop();
      return process_.exit();
    }
    calls_.on_node_message(node_, std::move(parcel));
  }
  void on_peer_closed(net::Peer&, const Error&) override { process_.exit(); }

  Process& process_;
  actors::Calls calls_;
  std::shared_ptr<net::Peer> node_;
};

// ---- Cluster

Cluster::Cluster(std::uint64_t seed, const Options& options) : world_{seed}, network_{world_} {
  actors::fix_function_table();
  network_.set_delays(options.delays);
  node_process_ = &processes_.emplace_back(world_, network_, "node");
  auto node = std::make_unique<Node>(*node_process_, *this, options.cpus);
  node_ = node.get();
  node_process_->start(std::move(node));
}

Cluster::~Cluster() {
  for (Process& process : processes_) process.kill("ends with its cluster");
  world_.forget_events();
}

Process& Cluster::start_driver(std::string name, std::function<void(Runtime&)> main) {
  Process& process = processes_.emplace_back(world_, network_, std::move(name));
  drivers_.push_back(&process);
  auto [its, nodes] = network_.connect(false);
  auto program = std::make_unique<DriverProgram>(process, std::move(its));
  auto* const raw = program.get();
  process.start(std::move(program));
  const auto accepted = std::make_shared<Fd>(std::move(nodes));
  node_process_->soon([this, accepted] { node_->accept(std::move(*accepted)); });
  process.soon([raw, main = std::move(main)] { raw->run(main); });
  return process;
}

void Cluster::spawn_worker(WorkerId worker, Fd control) {
  const auto inherited = std::make_shared<Fd>(std::move(control));
  world_.after(lots().between(kForkMin, kForkMax), [this, worker, inherited] {
    if (!node_process_->alive()) return;
    Process& process = processes_.emplace_back(world_, network_, "worker" + std::to_string(++last_worker_));
    world_.note(process.name(), "is forked");
    workers_.emplace(worker, &process);
    process.on_end([this, worker] {
      workers_.erase(worker);
      node_process_->at(world_.now() + lots().between(Duration{0}, kReapMax),
                        [this, worker] { node_->on_worker_ended(worker, "its process ended"); });
    });
    auto program = std::make_unique<WorkerProgram>(process, std::move(*inherited));
    auto* const raw = program.get();
    process.start(std::move(program));
    process.soon([raw, worker] { raw->begin(worker); });
  });
}

// It may be on its way still: then it is killed once it is there.
void Cluster::kill_worker(WorkerId worker) {
  world_.after(kForkMax, [this, worker] {
    if (const auto found = workers_.find(worker); found != workers_.end()) found->second->kill("is killed by its node");
  });
}

void Cluster::crash() {
  Process::current()->exit();
  Process::current()->park(async::Deadline::never());
  throw std::exception{};  // for the code of a process that is no more
}

void Cluster::step_done() {
  network_.look_after_unopened();
}

bool Cluster::run_until(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = world_.now() + limit;
  while (!done()) {
    if (world_.now() > end || !world_.step()) return done();
    step_done();
  }
  return true;
}

void Cluster::run_for(Duration time) {
  bool over = false;
  world_.after(time, [&over] { over = true; });
  run_until([&over] { return over; }, time);
}

std::vector<Process*> Cluster::workers() const {
  std::vector<Process*> all;
  for (const auto& [id, process] : workers_) all.push_back(process);
  return all;
}

bool Cluster::all_drivers_ended() const {
  return std::none_of(drivers_.begin(), drivers_.end(), [](const Process* driver) { return driver->alive(); });
}

}  // namespace pharos::simulator
