#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/async/manual_executor.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

ManualExecutor::~ManualExecutor() {
  PHAROS_CHECK(!running_);
}

void ManualExecutor::post(Callback work) {
  std::lock_guard lock{mutex_};
  posted_.push_back(std::move(work));
}

TimePoint ManualExecutor::now() const {
  std::lock_guard lock{mutex_};
  return now_;
}

TimerId ManualExecutor::run_at(TimePoint when, Callback work) {
  std::lock_guard lock{mutex_};
  return timers_.add(when, std::move(work));
}

bool ManualExecutor::cancel(TimerId timer) {
  Callback dropped;  // destroyed without the lock, because its captures may call this executor when destroyed
  std::lock_guard lock{mutex_};
  dropped = timers_.cancel(timer);
  return static_cast<bool>(dropped);
}

std::size_t ManualExecutor::run_until_idle() {
  PHAROS_CHECK(!running_);
  running_ = true;
  std::size_t ran = 0;
  for (auto work = take_next(); work; work = take_next()) {
    work();
    ++ran;
  }
  running_ = false;
  return ran;
}

std::size_t ManualExecutor::advance(Duration by) {
  PHAROS_CHECK(by >= Duration::zero());
  const auto until = Deadline::after(by, now()).when();
  std::size_t ran = run_until_idle();
  for (auto next = next_timer(); next && *next <= until; next = next_timer()) {
    set_now(*next);
    ran += run_until_idle();
  }
  set_now(until);
  return ran;
}

std::optional<TimePoint> ManualExecutor::next_timer() const {
  std::lock_guard lock{mutex_};
  return timers_.next();
}

Callback ManualExecutor::take_next() {
  std::lock_guard lock{mutex_};
  if (posted_.empty()) return timers_.take_due(now_);
  Callback work = std::move(posted_.front());
  posted_.pop_front();
  return work;
}

void ManualExecutor::set_now(TimePoint now) {
  std::lock_guard lock{mutex_};
  now_ = now;
}

}  // namespace pharos::async
