#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pharos/async/unique_function.hpp>

#include "program/thread_state.hpp"

namespace pharos::simulator {

/// A thread of a simulated process: runs one piece of work after the other, each until it ends or parks. What code
/// keeps for each thread (actors::ThreadState, exceptions under way) goes with it.
class Fibre {
 public:
  /// `number` is what the simulated kernel calls this thread. The node is told which thread waits for what.
  explicit Fibre(pid_t number);
  Fibre(Fibre&&) = delete;
  /// Only when idle.
  ~Fibre();

  /// The one that runs; null outside of all.
  static Fibre* current();

  // From outside of all fibres.
  /// Until the work ends or parks.
  void run(async::Callback work);
  /// Goes on after park().
  void resume();
  bool idle() const { return !work_; }
  bool parked() const { return parked_; }
  /// Which of its parks this is, or was the last.
  std::uint64_t parks() const { return parks_; }

  // From inside.
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
