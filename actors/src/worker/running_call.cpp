#include "worker/running_call.hpp"

#include <utility>

#include "program/thread_state.hpp"

namespace pharos::actors {

PHAROS_THREAD_LOCAL constinit ThreadState this_thread;

RunningCall* RunningCall::of_this_thread() {
  return this_thread.running;
}

const void* RunningCall::stack_begin() {
  return this_thread.scope;
}

RunningCall::Scope::Scope(RunningCall& call)
    : outer_{std::exchange(this_thread.running, &call)},
      outer_scope_{std::exchange(this_thread.scope, this)},
      outer_continues_{std::exchange(this_thread.continues, nullptr)} {}

RunningCall::Scope::~Scope() {
  this_thread.running = outer_;
  this_thread.scope = outer_scope_;
  this_thread.continues = outer_continues_;
}

}  // namespace pharos::actors
