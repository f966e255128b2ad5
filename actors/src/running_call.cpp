#include "running_call.hpp"

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {
namespace {

PHAROS_THREAD_LOCAL RunningCall* innermost = nullptr;

}  // namespace

RunningCall* RunningCall::of_this_thread() {
  return innermost;
}

RunningCall::Scope::Scope(RunningCall& call) : outer_{innermost} {
  innermost = &call;
}

RunningCall::Scope::~Scope() {
  innermost = outer_;
}

}  // namespace pharos::actors
