#include "simulator/cluster.hpp"

#include <algorithm>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/testing/cluster.hpp>

#include "simulator/fault_injector.hpp"
#include "simulator/worker_program.hpp"

namespace pharos {
namespace detail {
PHAROS_API bool simulates();
}  // namespace detail

namespace testing {
namespace {

using simulator::Network;
using simulator::Process;

constexpr Duration kJoinTime = std::chrono::seconds{60};

void check_libraries() {
  if (detail::simulates()) return;
  throw_error(
      Error{ErrorCode::kFailedPrecondition,
            "this program has loaded libpharos.so before libpharos_testing.so, so its actors would not run in the "
            "simulated cluster",
            "Link it with the CMake target pharos::testing, which puts libpharos_testing.so first."});
}

}  // namespace

class Cluster::Simulation {
 public:
  Simulation(std::uint64_t seed, const ClusterOptions& options) : seed_{seed}, cluster_{seed, options} {
    if (options.keeps_records) cluster_.look_after_head();
    cluster_.run_until([this] { return all_have_joined(); }, kJoinTime);
    throw_what_is_wrong();
    began_ = cluster_.world().now();
  }

  simulator::Cluster& cluster() { return cluster_; }
  std::uint64_t seed() const { return seed_; }
  TimePoint began() const { return began_; }

  void start(std::string name, Program main, std::size_t machine) {
    check_machine(machine == kItsOwn ? 0 : machine);
    if (programs_.contains(name)) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the cluster has a program \"" + name + "\" already"});
    }
    const std::size_t place = machine == kItsOwn ? cluster_.nodes() : machine;
    auto refused = [this, name](const Error& why) {
      if (refusal_) return;
      refusal_ = Error{why}.with("starting the program " + name);
    };
    programs_.emplace(name, &cluster_.start_driver(name, place, std::move(main), std::move(refused)));
  }

  void run_until_ended(Duration limit) {
    const bool ended = cluster_.run_until([this] { return refusal_ || cluster_.all_drivers_ended(); }, limit);
    throw_what_is_wrong();
    if (ended) return;
    throw_error(
        Error{ErrorCode::kDeadlineExceeded, "programs still run; they wait for:\n" + cluster_.what_drivers_wait_for()});
  }
  void run_for(Duration time) {
    cluster_.run_for(time);
    throw_what_is_wrong();
  }

  void inject(const Faults& faults) {
    if (faults.head_restarts != 0) check_records();
    if (faults.lost_messages_one_in != 0) lose_messages(faults.lost_messages_one_in);
    injectors_.emplace_back(cluster_, faults);
  }

  /// Calls `what` outside of all processes, as soon as the code that runs now waits.
  void outside(std::function<void()> what) { cluster_.world().after(Duration{0}, std::move(what)); }

  void check_machine(std::size_t machine) {
    if (machine < cluster_.nodes()) return;
    throw_error(Error{ErrorCode::kInvalidArgument, "there is no machine " + std::to_string(machine) +
                                                       "; the cluster has " + std::to_string(cluster_.nodes())});
  }
  void check_records() {
    if (cluster_.durable()) return;
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "the head keeps no records, so nothing could go on after its restart",
                      "Set ClusterOptions::keeps_records."});
  }

  /// The process in which the actor lives; null if there is none.
  Process* process_of(ActorId actor) {
    for (Process* const worker : cluster_.processes("worker")) {
      if (worker->program() == nullptr) continue;
      const auto& lives = static_cast<simulator::WorkerProgram*>(worker->program())->incarnation();
      if (lives && lives->actor == actor) return worker;
    }
    return nullptr;
  }
  Process* program(std::string_view name) {
    const auto found = programs_.find(name);
    return found == programs_.end() ? nullptr : found->second;
  }
  /// All processes at a machine, programs too.
  std::vector<Process*> all_at(std::size_t machine) {
    std::vector<Process*> all = cluster_.machine(machine);
    for (Process* const driver : cluster_.drivers()) {
      if (cluster_.machine_of(*driver) == cluster_.host(machine).address()) all.push_back(driver);
    }
    return all;
  }

 private:
  bool all_have_joined() {
    if (!cluster_.has_head()) return false;
    const node::Head& head = *cluster_.host(0).membership()->head();
    for (std::size_t machine = 0; machine < cluster_.nodes(); ++machine) {
      if (!head.knows(cluster_.host(machine).node_id())) return false;
    }
    return true;
  }
  void throw_what_is_wrong() {
    if (cluster_.thrown() != nullptr) std::rethrow_exception(cluster_.thrown());
    if (refusal_) throw_error(*refusal_);
    if (cluster_.wrong().empty()) return;
    throw_error(Error{ErrorCode::kInternal,
                      "Pharos broke a promise with seed " + std::to_string(seed_) + ": " + cluster_.wrong(),
                      "Please report it, with the test."});
  }
  void lose_messages(std::uint64_t one_in) {
    cluster_.network().choose_faults(Network::ChooseFrame{[this, one_in](const wire::FrameHeader&, bool may_break) {
      if (!may_break || !cluster_.lots().one_in(one_in)) return Network::Fault::kNone;
      return cluster_.lots().one_in(2) ? Network::Fault::kLost : Network::Fault::kReplyLost;
    }});
  }

  const std::uint64_t seed_;
  simulator::Cluster cluster_;
  TimePoint began_;
  std::list<simulator::FaultInjector> injectors_;
  std::map<std::string, Process*, std::less<>> programs_;
  std::optional<Error> refusal_;
};

Cluster::Cluster(std::uint64_t seed, const ClusterOptions& options) {
  check_libraries();
  simulation_ = std::make_unique<Simulation>(seed, options);
}

Cluster::~Cluster() = default;

void Cluster::start(std::string name, Program main, std::size_t machine) {
  simulation_->start(std::move(name), std::move(main), machine);
}

void Cluster::run(Duration limit) {
  simulation_->run_until_ended(limit);
}

void Cluster::run(Program main) {
  start("program", std::move(main));
  run();
}

void Cluster::run_for(Duration time) {
  simulation_->run_for(time);
}

void Cluster::inject(const Faults& faults) {
  simulation_->inject(faults);
}

Faults Cluster::draw_faults() {
  return simulator::draw_faults(simulation_->cluster());
}

void Cluster::after(Duration time, std::function<void()> what) {
  simulation_->cluster().world().after(time, std::move(what));
}

void Cluster::kill_worker_of(ActorId actor) {
  simulation_->outside([this, actor] {
    if (Process* const process = simulation_->process_of(actor)) process->kill("is killed");
  });
}

void Cluster::kill_machine(std::size_t machine) {
  simulation_->check_machine(machine);
  simulation_->outside([this, machine] {
    for (Process* const process : simulation_->all_at(machine)) process->kill("is killed");
  });
}

void Cluster::kill_program(std::string_view name) {
  simulation_->outside([this, name = std::string{name}] {
    if (Process* const process = simulation_->program(name)) process->kill("is killed");
  });
}

void Cluster::stop_machine(std::size_t machine, Duration time) {
  simulation_->check_machine(machine);
  simulation_->outside([this, machine, time] {
    for (Process* const process : simulation_->all_at(machine)) {
      process->stop();
      simulation_->cluster().world().after(time, [process] { process->proceed(); });
    }
  });
}

void Cluster::cut_off(std::size_t machine, Duration time) {
  simulation_->check_machine(machine);
  simulation_->outside([this, machine, time] { simulation_->cluster().cut_off(machine, time); });
}

void Cluster::restart_head(Duration away) {
  simulation_->check_records();
  simulation_->outside([this, away] { simulation_->cluster().restart_head(away); });
}

void Cluster::drain(std::size_t machine, Duration limit) {
  simulation_->check_machine(machine);
  simulation_->outside([this, machine, limit] { simulation_->cluster().drain(machine, limit); });
}

std::size_t Cluster::machine_of(ActorId actor) const {
  const Process* const process = simulation_->process_of(actor);
  for (std::size_t machine = 0; process != nullptr && machine < simulation_->cluster().nodes(); ++machine) {
    if (simulation_->cluster().machine_of(*process) == simulation_->cluster().host(machine).address()) return machine;
  }
  return kItsOwn;
}

Duration Cluster::elapsed() const {
  return simulation_->cluster().world().now() - simulation_->began();
}

std::uint64_t Cluster::draw(std::uint64_t end) {
  return simulation_->cluster().lots().below(end);
}

std::uint64_t Cluster::seed() const {
  return simulation_->seed();
}

std::uint64_t Cluster::hash() const {
  return simulation_->cluster().world().trace().hash();
}

bool Cluster::alive() {
  return simulator::Cluster::alive();
}

}  // namespace testing
}  // namespace pharos
