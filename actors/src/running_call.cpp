#include "running_call.hpp"

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {
namespace {

PHAROS_THREAD_LOCAL RunningCall* innermost = nullptr;

}  // namespace

RunningCall* RunningCall::of_this_thread() {
  return innermost;
}

RunningCall::RunningCall(const char* function_name) : outer_{innermost}, function_name_{function_name} {
  innermost = this;
}

RunningCall::~RunningCall() {
  innermost = outer_;
}

}  // namespace pharos::actors
