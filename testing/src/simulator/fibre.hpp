#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pharos/async/unique_function.hpp>

#include "program/thread_state.hpp"

namespace pharos::simulator {

/// A thread of a simulated process: runs one piece of work after the other, each until it ends or parks. The state that
/// code keeps for each thread (actors::ThreadState, exceptions in flight) is switched together with the fibre.
class Fibre {
 public:
  /// `number` is the simulated kernel's id of this thread. Nodes are told which thread waits, by this number.
  explicit Fibre(pid_t number);
  Fibre(Fibre&&) = delete;
  /// The fibre must be idle.
  ~Fibre();

  /// The fibre that runs; null outside of all fibres.
  static Fibre* current();

  // To be called from outside of all fibres.
  /// Runs the work until it ends or parks.
  void run(async::Callback work);
  /// Continues the work after its park().
  void resume();
  bool idle() const { return !work_; }
  bool parked() const { return parked_; }
  /// Number of the present park, or of the last one; tells a wake-up that comes too late from one for this park.
  std::uint64_t parks() const { return parks_; }

  // To be called from inside of the fibre.
  void park();

 private:
  struct Context;
  void enter();

  std::unique_ptr<Context> context_;
  async::Callback work_;
  bool parked_ = false;
  std::uint64_t parks_ = 0;
  actors::ThreadState state_;
};

}  // namespace pharos::simulator
