#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>
#include <pharos/testing/cluster_options.hpp>
#include <pharos/testing/faults.hpp>

namespace pharos::testing {

/// A cluster of several machines in one thread of the test: the shipped head, nodes and workers, on a simulated clock
/// and a simulated network, driven by a seed. Programs, actors and tasks are those that the user ships; they need no
/// main() of their own, and their code runs in this process, on fibres that wait as threads do. The same seed gives the
/// same run, so a failure can be replayed. An hour of simulated waiting takes no time.
///
/// User code sees simulated time in pharos::now(), pharos::sleep(), async::sleep() and in all deadlines. It should not
/// wait in other ways (std::this_thread::sleep_for, a lock that another actor holds) nor start threads: they know only
/// the real time. All processes share the global variables of the test.
///
/// The code of a killed process runs on until it waits, and from then on everything that it calls fails with
/// RuntimeStopped. So code that writes to variables of the test asks alive() first.
///
/// Used by one thread; there may be one Cluster at a time. All faults may be injected by the test and by the code of
/// programs, actors and tasks; a fault that is injected there strikes when that code next waits.
/// `machine` is a place in ClusterOptions::machines.
class PHAROS_API Cluster {
 public:
  /// All machines have joined when this returns. Throws InvalidArgument if there is no machine, and FailedPrecondition
  /// if the program has loaded libpharos.so before libpharos_testing.so.
  explicit Cluster(std::uint64_t seed, const ClusterOptions& options = {});
  Cluster(Cluster&&) = delete;
  /// Kills what still runs.
  ~Cluster();

  using Program = std::function<void(Runtime&)>;
  /// The place of a machine of the program's own, which offers nothing.
  static constexpr std::size_t kItsOwn = SIZE_MAX;

  /// Starts a program, which runs when run() is called. What `main` uses must exist until the Cluster is destroyed.
  /// `name` is for messages, and for kill_program().
  void start(std::string name, Program main, std::size_t machine = kItsOwn);
  /// Runs the cluster until all programs have ended. Throws what a program throws; DeadlineExceeded if programs still
  /// run after `limit` of simulated time, with what they wait for; and Internal if Pharos itself broke a promise, such
  /// as that an actor never lives twice.
  void run(Duration limit = std::chrono::hours{1});
  /// Starts this program alone, and runs it.
  void run(Program main);
  /// Runs the cluster for a time, whatever programs do. Throws like run().
  void run_for(Duration time);

  // ---- Faults at moments that the seed draws

  void inject(const Faults& faults);
  /// Draws faults of all kinds, as Pharos's own tests do.
  Faults draw_faults();

  // ---- Faults at a moment that the test chooses

  /// Calls `what` after this time.
  void after(Duration time, std::function<void()> what);
  template <class T>
  void kill_worker_of(const Actor<T>& actor) {
    kill_worker_of(actor.id());
  }
  /// Does nothing if the actor has no process now.
  void kill_worker_of(ActorId actor);
  /// Ends all of the machine at once: its node, workers, and the programs there.
  void kill_machine(std::size_t machine);
  void kill_program(std::string_view name);
  /// Nothing of the machine runs for this time; then it goes on.
  void stop_machine(std::size_t machine, Duration time);
  /// For this time, nothing passes between the machine and all others.
  void cut_off(std::size_t machine, Duration time);
  /// Kills the head, and starts it again after `away`. Needs ClusterOptions::keeps_records, else it throws
  /// FailedPrecondition.
  void restart_head(Duration away);
  void drain(std::size_t machine, Duration limit);

  // ---- What there is

  template <class T>
  std::size_t machine_of(const Actor<T>& actor) const {
    return machine_of(actor.id());
  }
  /// Where the actor runs now; kItsOwn if it has no process.
  std::size_t machine_of(ActorId actor) const;
  /// The simulated time since all machines have joined.
  Duration elapsed() const;
  /// A number from 0 to `end`, without `end`, that the seed draws, for choices of the test.
  std::uint64_t draw(std::uint64_t end);
  std::uint64_t seed() const;
  /// A hash of all that has happened. Two runs with the same hash were the same.
  std::uint64_t hash() const;
  /// Whether the process lives whose code calls this; false outside of the cluster.
  static bool alive();

 private:
  class Simulation;
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace pharos::testing
