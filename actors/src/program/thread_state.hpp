#pragma once

#include <sys/types.h>

#include <cstdint>

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {

class Callbacks;
struct InheritedContext;
class RunningCall;
struct Scratch;
class WaitingRoom;

/// Everything that this module remembers of a thread. It is in one struct because the simulator, whose threads are
/// fibres, exchanges it when it switches from one fibre to another. Used by its own thread only.
struct ThreadState {
  RunningCall* running = nullptr;  ///< The innermost call of a user's function; null if there is none.
  const InheritedContext* continues =
      nullptr;                           ///< InheritedContext of the `then()` callback that runs; null if none does.
  const void* scope = nullptr;           ///< Where on the stack the innermost call began.
  const WaitingRoom* leading = nullptr;  ///< The room that this thread leads; this thread need not wake its leader.
  Callbacks* calls_back = nullptr;       ///< The Callbacks whose turn this thread has; null if it runs no callback.
  bool is_runtimes = false;              ///< True for a thread that the Runtime has started.
  std::uint64_t last_trace = 0;          ///< Trace of the last call tree that the thread began; 0 before the first.
  Scratch* scratch = nullptr;            ///< The encoders for its calls; null before the first call.
  pid_t number = 0;                      ///< The kernel's id of the thread; 0 until it first waits for a result.
};
extern PHAROS_THREAD_LOCAL constinit ThreadState this_thread;
/// Frees what the state owns, the Scratch; the other pointers refer to objects on the thread's stack or of a Caller.
/// Called when the thread or fibre ends.
void end_thread(ThreadState& state);

}  // namespace pharos::actors
