#include <chrono>

#include <pharos/async/executor.hpp>

namespace pharos::async {

Executor::~Executor() = default;

bool Executor::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
                    UniqueFunction<bool()> done) {
  // The deadline is by the executor's clock, but this thread waits by the machine's clock.
  const auto until = Deadline::after(deadline.left(now()), std::chrono::steady_clock::now());
  return changed.wait_until(lock, until.when(), [&] { return done(); });
}

}  // namespace pharos::async
