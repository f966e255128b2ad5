#include "simulator/cluster.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include <pharos/async/block_on.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/net/token_ring.hpp>

#include "caller/caller.hpp"
#include "program/function_table.hpp"
#include "results/large_values.hpp"
#include "simulator/user_program.hpp"
#include "simulator/worker_program.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFlushDelayMax = 200us;
constexpr auto kStartTime = 60s;
constexpr auto kStopTime = 10s;
constexpr auto kAnswerTime = 60s;    // longer than any fault lasts
constexpr Duration kLookTime = 5ms;  // how often the operator looks whether the head is there
constexpr Duration kToGoOn = 5ms;    // time in which a process that was stopped continues and ends

scheduler::Resources resources_of(const testing::Machine& machine) {
  scheduler::Resources resources;
  auto amounts = machine.resources;
  amounts.emplace("cpu", machine.cpus);
  amounts.emplace("gpu", machine.gpus);
  for (const auto& [name, amount] : amounts) {
    if (auto set = resources.set(name, amount); !set) throw_error(std::move(set).error());
  }
  return resources;
}

}  // namespace

// ---- A driver, composed as detail::Driver does it

class Cluster::DriverProgram final : public Program, public net::Peer::Owner {
 public:
  DriverProgram(Process& process, Fd node)
      : process_{process},
        caller_{detail::Caller::make(process.platform(), actors::FlushQueue::make(*process.platform(), kFlushDelayMax),
                                     actors::OutgoingCalls::Side::kProgram)} {
    const auto link = process.network().open(std::move(node), process);
    node_ = net::Peer::make(process.executor(), link, *this);
    link->start(node_);
  }

  /// Runs main(), and tells `thrown` what it throws; not what the code of a process that has ended still throws.
  void run(const std::function<void(Runtime&)>& main, const std::function<void(const Error&)>& when_refused,
           const std::function<void(std::exception_ptr)>& thrown) {
    if (const auto registered = register_job(); registered) {
      Runtime runtime;
      try {
        main(runtime);
      } catch (...) {
        if (process_.alive()) thrown(std::current_exception());
      }
    } else if (process_.alive() && when_refused) {
      when_refused(registered.error());
    }
    if (!process_.alive()) return;
    stop();
    process_.exit();
  }

  void end() override {
    node_->close();
    caller_->large_values().abandon();
    caller_->end();
  }
  std::shared_ptr<detail::Caller> caller() override { return caller_; }

 private:
  Result<void> register_job() {
    const auto deadline = async::Deadline::after(kStartTime, process_.executor());
    wire::Message ask = wire::RegisterJob{.executable = "/dev/null", .arguments = {}, .environment = {}, .folder = {}};
    const auto answer = async::block_on(process_.executor(), node_->request(std::move(ask), some_file(), deadline));
    if (!answer) return answer.error();
    caller_->join(node_, std::get<wire::JobRegistered>(answer->message));
    return {};
  }

  void stop() {
    stopping_ = true;
    caller_->line().finish_telling();
    caller_->close();
    async::block_on(process_.executor(), stop_job());
  }
  async::Async<void> stop_job() {
    const auto deadline = async::Deadline::after(kStopTime, process_.executor());
    wire::Message ask = wire::Stop{};
    [[maybe_unused]] const auto done = co_await node_->request(std::move(ask), std::vector<Fd>{}, deadline);
    node_->close();
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) override {
    if (std::holds_alternative<wire::Output>(parcel.message)) node_->send(wire::Done{});
    if (std::holds_alternative<wire::Explain>(parcel.message) && request) {
      return caller_->pending_results().explain(
          {}, [node = node_, number = *request](auto explained) { node->respond(number, std::move(explained)); });
    }
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

// ---- Cluster

Cluster::Cluster(std::uint64_t seed, const testing::ClusterOptions& options)
    : world_{seed},
      network_{world_},
      durable_{options.keeps_records},
      kernel_{world_, network_},
      nodes_{options.machines.size()} {
  if (options.machines.empty()) throw_error(Error{ErrorCode::kInvalidArgument, "a cluster needs at least one machine"});
  actors::fix_function_table();
  ::setenv("PHAROS_LOG", "off", 0);  // faults would make the nodes log many warnings
  network_.set_delays(options.delays);
  for (const testing::Machine& machine : options.machines) {
    add_host({.name = "node" + std::to_string(hosts_.size() + 1),
              .resources = resources_of(machine),
              .gpus = machine.gpus,
              .object_store = machine.object_store});
  }
}

SimulatedHost& Cluster::add_host(SimulatedHost::Settings settings) {
  const bool is_head = hosts_.empty();
  settings.head = is_head ? nullptr : &hosts_.front();
  settings.disk = is_head && durable_ ? &disk_ : nullptr;
  return hosts_.emplace_back(kernel_, std::move(settings),
                             [this](const std::string& address) { return find_host(address); });
}

SimulatedHost* Cluster::find_host(const std::string& address) {
  for (SimulatedHost& host : hosts_) {
    if (host.address() == address) return &host;
  }
  return nullptr;
}

void Cluster::look_after_head() {
  world_.after(kLookTime, [this] {
    if (node(0).alive()) return look_after_head();
    const Duration drawn = lots().one_in(4) ? lots().between(1s, 4s) : lots().between(1ms, 200ms);
    world_.after(std::exchange(head_away_, {}).value_or(drawn), [this] {
      // The new head has the old one's settings, because the other nodes find the head by its address.
      old_heads_.splice(old_heads_.end(), hosts_, hosts_.begin());
      hosts_.emplace_front(kernel_, SimulatedHost::Settings{old_heads_.back().settings()},
                           [this](const std::string& address) { return find_host(address); });
      look_after_head();
    });
  });
}

void Cluster::restart_head(Duration away) {
  if (!node(0).alive()) return;
  head_away_ = away;
  node(0).kill("is killed, and starts again");
}

Process& Cluster::start_driver(const std::string& name, std::size_t node, std::function<void(Runtime&)> main,
                               std::function<void(const Error&)> when_refused) {
  const bool alone = node == nodes_;
  SimulatedHost& host = alone ? add_host({.name = name + "'s node",
                                          .object_store = hosts_.front().settings().object_store,
                                          .serves_only_driver = true})
                              : this->host(node);
  auto thrown = [this, name](std::exception_ptr what) {
    if (thrown_ == nullptr) thrown_ = std::move(what);
    told_ += "the program " + name + " threw an exception\n";
  };
  auto [its, nodes] = network_.connect(false);
  Process& process =
      kernel_.start(name, nullptr, Duration{0},
                    [socket = std::move(its), main = std::move(main), when_refused = std::move(when_refused),
                     thrown = std::move(thrown)](Process& its_own) mutable -> std::unique_ptr<Program> {
                      auto program = std::make_unique<DriverProgram>(its_own, std::move(socket));
                      its_own.soon([raw = program.get(), main = std::move(main), when_refused = std::move(when_refused),
                                    thrown = std::move(thrown)] { raw->run(main, when_refused, thrown); });
                      return program;
                    });
  drivers_.push_back(&process);
  machines_.emplace(&process, host.address());
  host.serve_driver(std::move(nodes), alone);
  return process;
}

bool Cluster::explain_waits(Duration patience) {
  async::Executor& executor = Process::current()->executor();
  async::Completion<void> explained;
  executor.post([caller = Process::current()->program()->caller(), explained] {
    caller->pending_results().explain([explained](const std::string&) mutable { explained.complete(); });
  });
  return async::block_on(executor, explained.wait(async::Deadline::after(patience, executor))).ok();
}

std::string Cluster::what_drivers_wait_for() {
  // Shared with the questions, because a driver may answer after this function has returned.
  const auto all = std::make_shared<std::string>();
  for (Process* const driver : drivers()) {
    driver->soon([all, driver] {
      driver->program()->caller()->pending_results().explain([all](const std::string& text) { *all += text; });
    });
  }
  run_for(3s);
  return *all;
}

void Cluster::step_done() {
  network_.look_after_unopened();
  wrong_ = told_ + look_at_disk() + look_at_nodes();
  if (look_) wrong_ += look_();
  if (!wrong_.empty()) wrong_ += "at step " + std::to_string(world_.steps()) + '\n';
}

// Looks once after each write, when the write was acknowledged and no other one is under way: only then must the disk
// agree with the head.
std::string Cluster::look_at_disk() {
  const SimulatedHost& head = hosts_.front();
  if (!durable_ || disk_.writes() == looked_at_writes_ || disk_.lies() || !head.has_written_all()) return "";
  looked_at_writes_ = disk_.writes();
  const std::string wrong = head.wrong_on_disk();
  return wrong.empty() ? "" : "what the head knew and what was on disk:\n" + wrong;
}

// Skips checks if no node's process has run since the last look.
std::string Cluster::look_at_nodes() {
  std::string wrong;
  std::uint64_t runs = 0;
  for (SimulatedHost& host : hosts_) {
    wrong += host.check();
    runs += host.process().runs();
  }
  if (std::exchange(looked_at_runs_, runs) == runs) return wrong;
  return wrong + look_at_incarnations() + look_at_exclusive_actors();
}

// Skips nodes that the head has given up: they may run old incarnations until they hear of that.
std::string Cluster::look_at_incarnations() const {
  std::string wrong;
  const node::Membership* const first = hosts_.front().membership();
  if (first == nullptr || first->head() == nullptr) return wrong;
  std::map<ActorId, std::uint32_t> alive;
  for (const SimulatedHost& host : hosts_) {
    const node::Membership* const there = host.membership();
    if (there == nullptr || !(first->head()->knows(host.node_id()) || first->head()->expects(host.node_id()))) continue;
    for (const auto& [actor, incarnation] : there->node().incarnations()) {
      if (alive.emplace(actor, incarnation).second) continue;
      wrong += "incarnations " + std::to_string(alive.at(actor)) + " and " + std::to_string(incarnation) +
               " of actor " + to_string(actor) + " have processes at once\n";
    }
  }
  return wrong;
}

// Holds for all nodes, also for those that the head has given up. An old incarnation whose process was stopped may
// still be there for a moment after the process continues, so two of them are an error only after kToGoOn.
std::string Cluster::look_at_exclusive_actors() {
  std::map<ActorId, WorkerProgram::Incarnation> running;
  for (Process* const worker : kernel_.alive("worker")) {
    if (worker->stopped() || worker->program() == nullptr) continue;
    const auto& its = static_cast<WorkerProgram*>(worker->program())->incarnation();
    if (!its) continue;
    const auto [other, first] = running.emplace(its->actor, *its);
    if (first || !(its->exclusive || other->second.exclusive)) continue;
    if (!twice_since_) twice_since_ = world_.now();
    if (world_.now() - *twice_since_ < kToGoOn) return "";
    return "exclusive actor " + to_string(its->actor) + " runs in incarnations " +
           std::to_string(other->second.number) + " and " + std::to_string(its->number) + " at once\n";
  }
  twice_since_.reset();
  return "";
}

void Cluster::ask(SimulatedHost& host, std::vector<wire::Message> questions) {
  auto [its, nodes] = network_.connect(false);
  auto unanswered = [this](const std::string& which) { told_ += "nobody has answered a " + which + '\n'; };
  const Process& user = kernel_.start("user", nullptr, Duration{0},
                                      [socket = std::move(its), questions = std::move(questions),
                                       unanswered](Process& its_own) mutable -> std::unique_ptr<Program> {
                                        return std::make_unique<UserProgram>(its_own, std::move(socket),
                                                                             std::move(questions), unanswered);
                                      });
  machines_.emplace(&user, host.address());
  host.serve_driver(std::move(nodes), false);
}

void Cluster::drain(std::size_t place, Duration limit) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  const wire::DrainNode drain{host(place).node_id(), static_cast<std::uint32_t>(milliseconds)};
  if (host(place).process().alive()) ask(host(place), {drain});
}

void Cluster::ask_as_people_do() {
  if (!node(0).alive()) return;
  std::vector<wire::Message> questions;
  questions.emplace_back(wire::ListRows{.table = "actors", .filters = {}, .limit = 100});
  questions.emplace_back(
      wire::RotateToken{.sealed = std::vector<std::byte>(net::kSealedBytes), .until = 0, .number = 0});
  for (std::size_t place = 0; place < nodes_; ++place) {
    const NodeId node = host(place).node_id();
    for (const char* const table : {"stacks", "logs"}) {
      questions.emplace_back(wire::ListRows{.table = table, .filters = {}, .limit = 100, .number = 0, .node = node});
    }
    questions.emplace_back(wire::ReadLog{.node = node, .log = to_string(node), .from = 0, .most = 100});
  }
  ask(host(0), std::move(questions));
}

void Cluster::end_a_node() {
  std::vector<SimulatedHost*> alive;
  for (SimulatedHost& each : hosts_) {
    if (each.process().alive()) alive.push_back(&each);
  }
  if (!alive.empty()) ask(*alive[lots().below(alive.size())], {wire::EndNode{}});
}

void Cluster::hold_head_link(std::size_t place, bool to_head, bool from_head, Duration time) {
  const std::string head{node(0).what()};
  const std::string other{node(place).what()};
  if (to_head) network_.hold(other, head, world_.now() + time);
  if (from_head) network_.hold(head, other, world_.now() + time);
}

void Cluster::cut_off(std::size_t place, Duration time) {
  network_.cut_off(host(place).address(), world_.now() + time,
                   [this](const Process& process) { return machine_of(process); });
}

std::string Cluster::machine_of(const Process& process) const {
  if (const auto driver = machines_.find(&process); driver != machines_.end()) return driver->second;
  const Process* root = &process;
  while (root->parent() != nullptr) root = root->parent();
  return std::string{root->what()};
}

std::vector<Process*> Cluster::machine(std::size_t place) {
  std::vector<Process*> all{&node(place)};
  for (const char* const what : {"zygote", "worker"}) {
    for (Process* const process : kernel_.alive(what)) {
      const Process* parent = process->parent();
      while (parent->parent() != nullptr) parent = parent->parent();
      if (parent == all.front()) all.push_back(process);
    }
  }
  return all;
}

bool Cluster::has_head() const {
  const node::Membership* const there = hosts_.front().membership();
  return there != nullptr && there->head() != nullptr;
}

bool Cluster::run_until(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = world_.now() + limit;
  while (!done() && wrong_.empty()) {
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

std::string Cluster::leftovers() const {
  std::string left;
  for (const SimulatedHost& host : hosts_) left += host.leftovers();
  for (const char* const what : {"worker", "zygote"}) {
    for (const Process* const process : kernel_.alive(what)) left += process->name() + " is alive\n";
  }
  return left;
}

std::vector<Process*> Cluster::drivers() const {
  std::vector<Process*> alive;
  std::copy_if(drivers_.begin(), drivers_.end(), std::back_inserter(alive),
               [](const Process* driver) { return driver->alive(); });
  return alive;
}

}  // namespace pharos::simulator
