#include <pthread.h>

#include <string>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

BlockingPool::BlockingPool(std::size_t threads, std::size_t queue_bound) : queue_bound_{queue_bound} {
  PHAROS_CHECK(threads > 0 && queue_bound > 0, threads, queue_bound);
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run_jobs(); });
    pthread_setname_np(threads_.back().native_handle(), "blocking");
  }
}

BlockingPool::~BlockingPool() {
  std::deque<Job> refused;
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
    refused.swap(queue_);
  }
  changed_.notify_all();
  for (auto& job : refused) job(Turn::kRefused);
  for (auto& thread : threads_) thread.join();
}

Result<void> BlockingPool::submit(Job job) {
  std::lock_guard lock{mutex_};
  PHAROS_CHECK(!stopping_);
  if (queue_.size() >= queue_bound_) {
    return Error{ErrorCode::kOverloaded,
                 "all " + std::to_string(threads_.size()) + " threads for blocking work are busy and " +
                     std::to_string(queue_bound_) + " jobs wait already",
                 "Try again after a pause."}
        .with_outcome(Outcome::kNotStarted);
  }
  queue_.push_back(std::move(job));
  // Notified with the lock held: without it the job could run at once, and let the owner destroy the pool before the
  // notification.
  changed_.notify_one();
  return {};
}

void BlockingPool::run_jobs() {
  while (true) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job(Turn::kRun);
  }
}

}  // namespace pharos::async
