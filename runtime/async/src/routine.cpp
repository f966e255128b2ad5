#include <utility>

#include <pharos/async/routine.hpp>
#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async::detail {

void Routine::park(std::coroutine_handle<> waiting, Wait* wait) {
  parked_ = waiting;
  wait_ = wait;
}

void Routine::run() {
  PHAROS_CHECK(!next_ || !parked_);
  if (parked_) next_ = std::exchange(parked_, {});
  wait_ = nullptr;
  while (next_) std::exchange(next_, {}).resume();
  // No coroutine is next and none waits, so the outermost coroutine has ended.
  if (!parked_) ended();
}

void Routine::cancel_wait() {
  if (wait_ != nullptr && wait_->claim(WaitEnd::kCancelled)) wait_->resume();
}

}  // namespace pharos::async::detail
