#include "results/callbacks.hpp"

#include <utility>

#include "program/thread_state.hpp"

namespace pharos::actors {

// A loop, because a callback that waits may make a new thread for those behind it until it has ended.
Callbacks::~Callbacks() {
  for (;;) {
    std::vector<std::unique_ptr<async::Executor>> threads;
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
      idle_.clear();
      threads.swap(threads_);
    }
    if (threads.empty()) return;
  }
}

void Callbacks::post(async::Callback then) {
  const std::lock_guard lock{mutex_};
  waiting_.push_back(std::move(then));
  if (!turn_taken_) start();
}

// Under the mutex.
void Callbacks::start() {
  turn_taken_ = true;
  if (idle_.empty()) {
    threads_.push_back(platform_.make_thread("pharos-then"));
    idle_.push_back(threads_.back().get());
  }
  async::Executor* const thread = idle_.back();
  idle_.pop_back();
  thread->post([this, thread] { run(thread); });
}

void Callbacks::run(async::Executor* thread) {
  this_thread.is_runtimes = true;
  this_thread.calls_back = this;
  std::unique_lock lock{mutex_};
  while (this_thread.calls_back != nullptr && !waiting_.empty()) {
    async::Callback then = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exchange(then, {})();
    lock.lock();
  }
  if (std::exchange(this_thread.calls_back, nullptr) != nullptr) turn_taken_ = false;
  if (!ends_) idle_.push_back(thread);
}

void Callbacks::give_up_turn() {
  Callbacks* const of = std::exchange(this_thread.calls_back, nullptr);
  if (of == nullptr) return;
  const std::lock_guard lock{of->mutex_};
  of->turn_taken_ = false;
  if (!of->waiting_.empty()) of->start();
}

}  // namespace pharos::actors
