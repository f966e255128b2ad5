#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/runtime.hpp>

#include "network.hpp"
#include "node.hpp"
#include "process.hpp"
#include "world.hpp"

namespace pharos::simulator {

/// A cluster in one thread: a node, its workers, and drivers, each a simulated process, on one network and one clock.
/// Programs are ordinary code, with the public API: they run on fibres, and wait as if they were threads.
class Cluster final : public Spawner {
 public:
  struct Options {
    std::uint32_t cpus = 2;
    Network::Delays delays{};
  };
  Cluster(std::uint64_t seed, const Options& options);
  Cluster(Cluster&&) = delete;
  ~Cluster() override;

  World& world() { return world_; }
  Network& network() { return network_; }
  Lots& lots() { return world_.lots(); }
  Node& node() { return *node_; }

  /// A program whose main() is this. It ends with its process.
  Process& start_driver(std::string name, std::function<void(Runtime&)> main);

  /// Lets things happen until `done`, but no longer than that. True when done.
  bool run_until(const std::function<bool()>& done, Duration limit);
  void run_for(Duration time);

  /// Those that are alive.
  std::vector<Process*> workers() const;
  bool all_drivers_ended() const;

  /// Whose code this is: for what programs write down. False in code of a process that has ended.
  static bool alive() { return Process::current() != nullptr && Process::current()->alive(); }
  /// For programs: as a thread would sleep.
  static void sleep(Duration time) { Process::current()->sleep(time); }
  /// For programs: their process crashes, now.
  [[noreturn]] static void crash();

 private:
  class DriverProgram;
  class WorkerProgram;

  void spawn_worker(WorkerId worker, Fd control) override;
  void kill_worker(WorkerId worker) override;
  void step_done();

  World world_;
  Network network_;
  std::list<Process> processes_;
  Process* node_process_ = nullptr;
  Node* node_ = nullptr;
  std::map<WorkerId, Process*> workers_;
  std::vector<Process*> drivers_;
  std::uint64_t last_worker_ = 0;
};

}  // namespace pharos::simulator
