#include "running_call.hpp"

namespace pharos::actors {
namespace {

thread_local RunningCall* innermost = nullptr;

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
