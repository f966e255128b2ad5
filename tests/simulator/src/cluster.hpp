#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
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

  /// Lets things happen until `done`, but no longer than that. True when done.
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
  /// How the head's records differed from what it knew, the first time that they did. Empty: never.
  const std::string& wrong_on_disk() const { return wrong_on_disk_; }
  /// Some driver asks for it, as people do.
  void drain(std::size_t place, Duration limit);

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
  void step_done();
  void look_at_disk();

  World world_;
  Network network_;
  SimulatedDisk disk_;  // the head's
  const bool durable_;
  std::list<SimulatedHost> hosts_;  // the nodes, then those that a driver has for itself; outlive their processes
  std::list<SimulatedHost> old_heads_;
  Kernel kernel_;
  std::size_t nodes_;
  std::vector<Process*> drivers_;
  std::uint64_t looked_at_writes_ = 0;
  std::string wrong_on_disk_;
};

}  // namespace pharos::simulator
