#include <pthread.h>

#include <algorithm>
#include <utility>

#include <pharos/async/thread_executor.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

ThreadExecutor::ThreadExecutor(std::string name) : thread_{[this] { run_callbacks(); }} {
  constexpr std::size_t kLongestName = 15;
  name.resize(std::min(name.size(), kLongestName));
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

ThreadExecutor::~ThreadExecutor() {
  PHAROS_CHECK(std::this_thread::get_id() != thread_.get_id());
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// Here and in run_at(), the thread is notified with the lock held. Without the lock the callback could run, and a
// thread that waited for the callback could destroy the executor, before the notification.
void ThreadExecutor::post(Callback work) {
  std::lock_guard lock{mutex_};
  posted_.push_back(std::move(work));
  changed_.notify_one();
}

TimePoint ThreadExecutor::now() const {
  return std::chrono::steady_clock::now();
}

TimerId ThreadExecutor::run_at(TimePoint when, Callback work) {
  std::lock_guard lock{mutex_};
  const TimerId timer = timers_.add(when, std::move(work));
  changed_.notify_one();
  return timer;
}

bool ThreadExecutor::cancel(TimerId timer) {
  Callback dropped;  // destroyed without the lock, because its captures may call this executor when destroyed
  std::lock_guard lock{mutex_};
  dropped = timers_.cancel(timer);
  return static_cast<bool>(dropped);
}

void ThreadExecutor::run_callbacks() {
  std::deque<Callback> batch;
  while (wait_for_work(batch)) {
    for (; !batch.empty(); batch.pop_front()) batch.front()();
  }
}

bool ThreadExecutor::wait_for_work(std::deque<Callback>& batch) {
  std::unique_lock lock{mutex_};
  while (true) {
    for (auto due = timers_.take_due(now()); due; due = timers_.take_due(now())) posted_.push_back(std::move(due));
    if (!posted_.empty()) {
      batch.swap(posted_);
      return true;
    }
    if (stopping_) return false;
    if (const auto next = timers_.next()) {
      changed_.wait_until(lock, *next);
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace pharos::async
