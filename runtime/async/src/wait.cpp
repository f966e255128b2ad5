#include <string>

#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async::detail {

void Wait::resume() {
  waiting_.executor().post([waiting = &waiting_] { waiting->run(); });
}

void Suspension::begin(Routine& routine, std::coroutine_handle<> waiting) {
  executor_ = &routine.executor();
  routine.park(waiting, cancellable_ ? wait_.get() : nullptr);
  if (deadline_.is_never()) return;
  timer_ = executor_->run_at(deadline_.when(), [wait = wait_] {
    if (wait->claim(WaitEnd::kDeadline)) wait->resume();
  });
}

WaitEnd Suspension::await_resume() {
  if (timer_) executor_->cancel(timer_);
  return wait_->end();
}

Error wait_error(WaitEnd end, std::string_view attempted) {
  std::string what{attempted};
  if (end == WaitEnd::kCancelled) return {ErrorCode::kCancelled, "cancelled while " + what};
  PHAROS_CHECK(end == WaitEnd::kDeadline, end);
  return {ErrorCode::kDeadlineExceeded, "the deadline passed while " + what};
}

}  // namespace pharos::async::detail
