#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pharos::node {

/// What is true of a worker's process, as far as this node has done something with it. How the process has ended is
/// Process::end.
enum class WorkerState : std::uint8_t {
  kForking,   ///< its fork was asked for
  kReady,     ///< it has proved itself, and may be used
  kLastTask,  ///< it was told to end after the task that it runs, because the node drains
  kKilled,    ///< it was killed from here, or is to be killed once its process is known
  kFailed,    ///< it was never ready, and is killed too; whoever was starting it reports its end
};
enum class WorkerEvent : std::uint8_t { kProved, kToldToEnd, kKilled, kNotProved };

/// Whether the executable of a job is here, and loaded as a zygote.
enum class ProgramState : std::uint8_t {
  kFetching,  ///< the executable is being fetched, which may take long
  kLoading,
  kLoaded,  ///< a zygote has loaded the program, and it is the right build
  kBroken,  ///< the program cannot run here
};
enum class ProgramEvent : std::uint8_t { kOpened, kLoaded, kRefused };

/// How far the end of a job has come on this node.
enum class JobState : std::uint8_t {
  kRunning,
  kAskedToStop,  ///< the driver, which is at this node, has asked to stop the job on all nodes
  kStopping,     ///< its workers here are being ended
  kStopped,      ///< nothing of it runs here any more
  kEnded,        ///< the node forgets it; a later job with the same id is another one
};
enum class JobEvent : std::uint8_t { kDriverAsks, kHeadOrders, kWorkersGone, kOver };

/// One lifecycle: the state that follows each state after each event. An event that means nothing in a state leaves the
/// state as it is.
template <class State, class Event, std::size_t kStates, std::size_t kEvents>
using Transitions = std::array<std::array<State, kEvents>, kStates>;

// clang-format off
inline constexpr Transitions<WorkerState, WorkerEvent, 5, 4> kWorkerTransitions = [] {
  using enum WorkerState;
  return Transitions<WorkerState, WorkerEvent, 5, 4>{{
      //           kProved    kToldToEnd  kKilled   kNotProved
      /*kForking */ {kReady,    kForking,   kKilled,  kFailed},
      /*kReady   */ {kReady,    kLastTask,  kKilled,  kReady},
      /*kLastTask*/ {kLastTask, kLastTask,  kKilled,  kLastTask},
      /*kKilled  */ {kKilled,   kKilled,    kKilled,  kFailed},
      /*kFailed  */ {kFailed,   kFailed,    kFailed,  kFailed},
  }};
}();
inline constexpr Transitions<ProgramState, ProgramEvent, 4, 3> kProgramTransitions = [] {
  using enum ProgramState;
  return Transitions<ProgramState, ProgramEvent, 4, 3>{{
      //            kOpened   kLoaded   kRefused
      /*kFetching*/ {kLoading, kFetching, kBroken},
      /*kLoading */ {kLoading, kLoaded,   kBroken},
      /*kLoaded  */ {kLoaded,  kLoaded,   kLoaded},
      /*kBroken  */ {kBroken,  kBroken,   kBroken},
  }};
}();
inline constexpr Transitions<JobState, JobEvent, 5, 4> kJobTransitions = [] {
  using enum JobState;
  return Transitions<JobState, JobEvent, 5, 4>{{
      //                kDriverAsks   kHeadOrders  kWorkersGone  kOver
      /*kRunning    */ {kAskedToStop, kStopping,   kRunning,     kEnded},
      /*kAskedToStop*/ {kAskedToStop, kStopping,   kAskedToStop, kEnded},
      /*kStopping   */ {kStopping,    kStopping,   kStopped,     kEnded},
      /*kStopped    */ {kStopped,     kStopped,    kStopped,     kEnded},
      /*kEnded      */ {kEnded,       kEnded,      kEnded,       kEnded},
  }};
}();
// clang-format on

/// A state that follows its table. A value: Process::life, Job::program_life and Job::life, on the node's strand.
template <auto& kTransitions, class State, class Event>
class Lifecycle {
 public:
  explicit Lifecycle(State first) : state_{first} {}

  State state() const { return state_; }
  void on(Event event) { state_ = kTransitions[static_cast<std::size_t>(state_)][static_cast<std::size_t>(event)]; }

 private:
  State state_;
};
using WorkerLife = Lifecycle<kWorkerTransitions, WorkerState, WorkerEvent>;
using ProgramLife = Lifecycle<kProgramTransitions, ProgramState, ProgramEvent>;
using JobLife = Lifecycle<kJobTransitions, JobState, JobEvent>;

}  // namespace pharos::node
