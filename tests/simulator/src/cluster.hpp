#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/actors/runtime.hpp>

#include "kernel.hpp"
#include "network.hpp"
#include "process.hpp"
#include "simulated_host.hpp"
#include "world.hpp"

namespace pharos::simulator {

/// A cluster in one thread: nodes, zygotes, workers and drivers, each a simulated process, on one network and one
/// clock. Programs are ordinary code, with the public API: they run on fibres, and wait as if they were threads.
class Cluster final {
 public:
  struct Options {
    std::vector<std::uint32_t> cpus{2};  ///< of each node; the first has the head, the others join it
    Network::Delays delays{};
    bool durable = false;  ///< the head keeps records, and may be started again
  };
  Cluster(std::uint64_t seed, const Options& options);
  Cluster(Cluster&&) = delete;

  World& world() { return world_; }
  Network& network() { return network_; }
  Lots& lots() { return world_.lots(); }
  std::size_t nodes() const { return nodes_; }
  /// Its process has ended: another one takes its place.
  void start_head_again();
  SimulatedDisk& disk() { return disk_; }
  bool durable() const { return durable_; }
  Process& node(std::size_t place) { return std::next(hosts_.begin(), static_cast<std::ptrdiff_t>(place))->process(); }

  /// A program whose main() is this. It ends with its process. `node`: the place of the one that serves it; nodes():
  /// one that it has for itself, which gives nothing.
  Process& start_driver(const std::string& name, std::size_t node, std::function<void(Runtime&)> main);

  /// Whatever `wrong` says, if it says something after a step, ends all.
  void look_at_each_step(std::function<std::string()> wrong) { look_ = std::move(wrong); }
  /// Lets things happen until `done`, but no longer than that. True when done, or when something is wrong.
  bool run_until(const std::function<bool()>& done, Duration limit);
  void run_for(Duration time);

  /// Those that are alive: "worker", "zygote".
  std::vector<Process*> processes(std::string_view what) const { return kernel_.alive(what); }
  /// Those that have not ended.
  std::vector<Process*> drivers() const;
  /// As SIGQUIT has them say it.
  std::string what_drivers_wait_for();
  bool all_drivers_ended() const { return drivers().empty(); }
  /// What should not be there once all drivers have ended, or are not there any more. Empty: nothing.
  std::string leftovers() const;
  /// What was wrong after a step, and which: the head's records, what is given twice or to nobody, who lives twice, and
  /// what else is looked at. Nothing happens any more then. Empty: nothing.
  const std::string& wrong() const { return wrong_; }
  /// Some driver asks for it, as people do.
  void drain(std::size_t place, Duration limit);
  /// The same for the node that it is at, and for the cluster if the head is there.
  void end_a_node();
  /// For so long one of the two is not heard by the other, or neither is: the head, and the node at that place. What is
  /// between their workers and drivers passes.
  void hold_head_link(std::size_t place, bool to_head, bool from_head, Duration time);
  /// For so long that machine and all others reach nothing of each other.
  void cut_off(std::size_t place, Duration time);
  SimulatedHost& host(std::size_t place) { return *std::next(hosts_.begin(), static_cast<std::ptrdiff_t>(place)); }
  /// Its node's process, and zygotes and workers.
  std::vector<Process*> machine(std::size_t place);
  /// It has started, and goes on from its records.
  bool has_head() const;

  /// Whose code this is: for what programs write down. False in code of a process that has ended.
  static bool alive() { return Process::current() != nullptr && Process::current()->alive(); }
  /// For programs: as a thread would sleep.
  static void sleep(Duration time) { Process::current()->sleep(time); }
  /// For programs: what SIGQUIT makes a process do. Whether it was done in that time.
  static bool explain_waits(Duration patience);
  /// For programs: their process crashes, now.
  [[noreturn]] static void crash();

 private:
  class DriverProgram;

  SimulatedHost& add_host(std::string name, std::uint32_t cpus);
  SimulatedHost* find_host(const std::string& address);
  std::string machine_of(const Process& process) const;
  void step_done();
  std::string look_at_disk();
  std::string look_at_nodes();
  std::string look_at_incarnations() const;
  std::string look_at_exclusive_actors();

  World world_;
  Network network_;
  SimulatedDisk disk_;  // the head's
  const bool durable_;
  std::list<SimulatedHost> hosts_;  // the nodes, then those that a driver has for itself; outlive their processes
  std::list<SimulatedHost> old_heads_;
  Kernel kernel_;
  std::size_t nodes_;
  std::vector<Process*> drivers_;
  std::map<const Process*, std::string> machines_;  // of drivers
  std::uint64_t looked_at_writes_ = 0;
  std::uint64_t looked_at_runs_ = 0;      // of all nodes
  std::optional<TimePoint> twice_since_;  // an exclusive actor runs
  std::function<std::string()> look_;
  std::string wrong_;
};

}  // namespace pharos::simulator
