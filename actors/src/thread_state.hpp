#pragma once

#include <sys/types.h>

#include <cstdint>

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {

class Callbacks;
struct Lineage;
class RunningCall;
struct Scratch;
class WaitingRoom;

/// What this module remembers of a thread, all in one place: the simulator, whose threads are fibres, exchanges it when
/// it goes from one to another.
struct ThreadState {
  RunningCall* running = nullptr;        ///< the innermost call of a user's function
  const Lineage* continues = nullptr;    ///< of what it runs inside of that, if it was left to `then()`
  const void* scope = nullptr;           ///< where on the stack that began
  const WaitingRoom* leading = nullptr;  ///< what it completes while it polls needs no waking, if it waits there itself
  Callbacks* calls_back = nullptr;       ///< whose turn it has to run users' callbacks
  bool is_runtimes = false;              ///< it is no thread of the user's
  std::uint64_t last_trace = 0;          ///< of the calls that it has made; 0 before the first
  Scratch* scratch = nullptr;            ///< where it encodes what it sends; null before the first
  pid_t number = 0;                      ///< what the kernel calls it; 0 until it first waits for a result
};
extern PHAROS_THREAD_LOCAL constinit ThreadState this_thread;
/// The thread, or what has its state, is at its end.
void end_thread(ThreadState& state);

}  // namespace pharos::actors
