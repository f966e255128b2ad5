#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/testing/cluster_options.hpp>

#include "simulator/kernel.hpp"
#include "simulator/network.hpp"
#include "simulator/process.hpp"
#include "simulator/simulated_host.hpp"
#include "simulator/simulated_machine.hpp"
#include "simulator/world.hpp"

namespace pharos::simulator {

/// A cluster in one thread: nodes, zygotes, workers and drivers, each a simulated process, on one network and one
/// clock. The test programs are ordinary code that uses the public API. They run on fibres, which wait as threads do.
/// A `place` is the index of a machine in the options; the head is at place 0.
class Cluster final {
 public:
  /// Throws InvalidArgument if there is no machine, or if one offers what makes no sense.
  Cluster(std::uint64_t seed, const testing::ClusterOptions& options);
  Cluster(Cluster&&) = delete;

  World& world() { return world_; }
  Network& network() { return network_; }
  Lots& lots() { return world_.lots(); }
  std::size_t nodes() const { return nodes_; }
  SimulatedDisk& disk() { return disk_; }
  bool durable() const { return durable_; }
  Process& node(std::size_t place) { return std::next(hosts_.begin(), static_cast<std::ptrdiff_t>(place))->process(); }

  /// From now on, if the head ends, it is started again after a while, as an operator would do it. The cluster must be
  /// durable.
  void look_after_head();
  /// Kills the head; look_after_head() starts it again after `away`.
  void restart_head(Duration away);
  /// Starts a program with this main(). Its process ends when main() returns. `node` is the place of the node that
  /// serves the program; with nodes() the program gets a node of its own, which has no resources. An exception of
  /// main() is a violation; see thrown(). `when_refused` is called if the node does not take the program.
  Process& start_driver(const std::string& name, std::size_t node, std::function<void(Runtime&)> main,
                        std::function<void(const Error&)> when_refused = {});

  /// Calls `wrong` after each step. A text that is not empty ends the run, and wrong() returns the text.
  void look_at_each_step(std::function<std::string()> wrong) { look_ = std::move(wrong); }
  /// Runs events until done() is true, for `limit` at most. Returns true if done() is true or if something is wrong.
  bool run_until(const std::function<bool()>& done, Duration limit);
  void run_for(Duration time);

  /// The processes of this kind ("worker", "zygote") that are alive.
  std::vector<Process*> processes(std::string_view what) const { return kernel_.alive(what); }
  /// The drivers that have not ended.
  std::vector<Process*> drivers() const;
  /// The text that the drivers would print after SIGQUIT. Runs the cluster for 3 s to get it.
  std::string what_drivers_wait_for();
  bool all_drivers_ended() const { return drivers().empty(); }
  /// Lists the state and the processes that remain. Once all drivers have ended, the result should be empty.
  std::string leftovers() const;
  /// Describes the first violation and the step after which it was found; empty if there was none. Checked are the
  /// head's records, resources that are given twice or to nobody, actors that live twice, and the function of
  /// look_at_each_step(). run_until() runs no more events after a violation.
  const std::string& wrong() const { return wrong_; }
  /// The first exception that a program which was alive has thrown out of its main(); null if there is none.
  const std::exception_ptr& thrown() const { return thrown_; }
  /// Lets somebody ask this node to drain, as by `pharos drain`. Does nothing if the node's process has ended.
  void drain(std::size_t place, Duration limit);
  /// Lets somebody ask the head's node what people ask by `pharos list`, `pharos stack` and `pharos logs`: the actors
  /// of the head, and what processes each node has, what they do, and what they have written. A question that gets
  /// neither an answer nor an error is a violation.
  void ask_as_people_do();
  /// Lets somebody end a random node, as by `pharos stop`; the whole cluster if that is the head's node.
  void end_a_node();
  /// For this time, messages from the node at `place` to the head, from the head to that node, or both are delayed.
  /// Messages between workers and drivers still pass.
  void hold_head_link(std::size_t place, bool to_head, bool from_head, Duration time);
  /// For this time, nothing passes between the machine at `place` and all others.
  void cut_off(std::size_t place, Duration time);
  SimulatedHost& host(std::size_t place) { return *std::next(hosts_.begin(), static_cast<std::ptrdiff_t>(place)); }
  /// The processes of the machine: its node, zygotes and workers.
  std::vector<Process*> machine(std::size_t place);
  /// The address of the machine that a process is on.
  std::string machine_of(const Process& process) const;
  /// Returns whether the head has started and has read its records.
  bool has_head() const;

  /// Returns whether the process that runs this code is alive. Programs check it before they record anything, because
  /// the code of a process that has ended still runs to its end.
  static bool alive() { return Process::current() != nullptr && Process::current()->alive(); }
  /// For programs: lets the process explain its waits as SIGQUIT does. Returns whether that was done within `patience`.
  static bool explain_waits(Duration patience);

 private:
  class DriverProgram;

  SimulatedHost& add_host(SimulatedHost::Settings settings);
  SimulatedHost* find_host(const std::string& address);
  void ask(SimulatedHost& host, std::vector<wire::Message> questions);
  void step_done();
  std::string look_at_disk();
  std::string look_at_nodes();
  std::string look_at_incarnations() const;
  std::string look_at_exclusive_actors();

  World world_;
  SimulatedMachine machine_{world_};
  Network network_;
  SimulatedDisk disk_;  // holds the head's records
  const bool durable_;
  // The nodes, then the nodes that drivers have for themselves. A host outlives its process.
  std::list<SimulatedHost> hosts_;
  std::list<SimulatedHost> old_heads_;
  std::map<const Process*, std::string> machines_;  // of each driver; asked for while the kernel ends its processes
  Kernel kernel_;
  std::size_t nodes_;
  std::vector<Process*> drivers_;
  std::uint64_t looked_at_writes_ = 0;
  std::uint64_t looked_at_runs_ = 0;      // sum of Process::runs() of all nodes at the last look
  std::optional<TimePoint> twice_since_;  // since when an exclusive actor has had two incarnations that run
  std::function<std::string()> look_;
  std::string told_;  // violations that programs have told: exceptions, and questions that nobody has answered in time
  std::string wrong_;
  std::optional<Duration> head_away_;  // how long the head that restart_head() has killed is away
  std::exception_ptr thrown_;
};

}  // namespace pharos::simulator
