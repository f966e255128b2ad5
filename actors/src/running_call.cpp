#include "running_call.hpp"

#include <utility>

#include "thread_state.hpp"

namespace pharos::actors {

PHAROS_THREAD_LOCAL constinit ThreadState this_thread;

RunningCall* RunningCall::of_this_thread() {
  return this_thread.running;
}

RunningCall::Scope::Scope(RunningCall& call) : outer_{std::exchange(this_thread.running, &call)} {}

RunningCall::Scope::~Scope() {
  this_thread.running = outer_;
}

}  // namespace pharos::actors
