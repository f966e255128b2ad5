#include <memory>

#include <pharos/async/sleep.hpp>
#include <pharos/async/wait.hpp>

namespace pharos::async {

Async<Result<void>> sleep_until(TimePoint when) {
  detail::Routine& routine = co_await detail::current_routine();
  auto end = detail::WaitEnd::kCancelled;
  if (!routine.cancelled()) {
    // No event can claim this Wait, so that success is the deadline.
    end = co_await detail::suspend(std::make_shared<detail::Wait>(routine), Deadline::at(when));
    if (end == detail::WaitEnd::kDeadline) co_return {};
  }
  co_return detail::wait_error(end, "sleeping");
}

Async<Result<void>> sleep(Duration duration) {
  Executor& executor = co_await current_executor();
  co_return co_await sleep_until(Deadline::after(duration, executor).when());
}

}  // namespace pharos::async
