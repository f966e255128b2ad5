#include "running_call.hpp"

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {
namespace {

PHAROS_THREAD_LOCAL RunningCall* innermost = nullptr;

}  // namespace

RunningCall* RunningCall::of_this_thread() {
  return innermost;
}

RunningCall::RunningCall() : outer_{innermost} {
  innermost = this;
}

RunningCall::~RunningCall() {
  innermost = outer_;
}

}  // namespace pharos::actors
