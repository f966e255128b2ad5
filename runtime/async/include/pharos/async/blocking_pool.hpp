#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// Threads for blocking work (disk, fsync, a C library), so that no executor ever blocks.
///
/// Owned by the object that submits the jobs, and outlives all objects that use it. Threads: submit() may be called
/// from any thread.
/// Failure: submit() fails with kOverloaded when `queue_bound` jobs wait for a thread already. Failures of a job are
/// the job's own matter. The constructor aborts the process if `threads` or `queue_bound` is 0.
/// End: the destructor first calls the queued jobs with kRefused. It then waits for the running jobs without a limit
/// (so a job must end by itself), and joins its threads. A submit() after the destructor has begun aborts the process.
/// Bounds: at most `threads` jobs run and `queue_bound` jobs wait.
class PHAROS_API BlockingPool {
 public:
  enum class Turn {
    kRun,
    kRefused,  ///< the pool is being destroyed
  };
  /// Called once: with kRun on a pool thread, or with kRefused on the thread that destroys the pool. An exception that
  /// leaves a job ends the process.
  using Job = UniqueFunction<void(Turn)>;

  BlockingPool(std::size_t threads, std::size_t queue_bound);
  BlockingPool(BlockingPool&&) = delete;
  ~BlockingPool();

  /// Queues a job. Fails with kOverloaded when the queue is full; the job is then destroyed and never called.
  /// Coroutines use run_blocking() instead.
  Result<void> submit(Job job);

 private:
  void run_jobs();

  const std::size_t queue_bound_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

namespace detail {

template <class R>
struct ResultOf {
  using Type = Result<R>;
};
template <class R>
struct ResultOf<Result<R>> {
  using Type = Result<R>;
};

/// One function that a coroutine runs on the pool. Coroutine and job share it, because either may end first. The pool
/// calls run(), and the coroutine calls the other members on its executor.
template <class F>
class BlockingCall {
 public:
  using Returned = std::invoke_result_t<F&>;
  using Outcome = typename ResultOf<Returned>::Type;

  explicit BlockingCall(F function) : function_{std::move(function)} {}

  void run(BlockingPool::Turn turn) {
    if (turn == BlockingPool::Turn::kRefused) {
      done_.fail({ErrorCode::kCancelled, "the pool of blocking work is going away"});
      return;
    }
    if (started_or_abandoned_.exchange(true)) return;
    try {
      if constexpr (std::is_void_v<Returned>) {
        function_();
        outcome_.emplace();
      } else {
        outcome_.emplace(function_());
      }
    } catch (...) {
      exception_ = std::current_exception();
    }
    done_.complete();
  }

  /// Returns true if the function has not started. It will then never start.
  bool abandon() { return !started_or_abandoned_.exchange(true); }

  Async<Result<void>> wait(Deadline deadline) { return done_.wait(deadline); }

  /// Returns the function's result, or throws its exception. To be called once, after a wait() that succeeded.
  Outcome take() {
    if (exception_) std::rethrow_exception(std::move(exception_));
    return std::move(*outcome_);
  }

 private:
  F function_;
  std::atomic<bool> started_or_abandoned_{false};
  // Both are written before done_ is completed, and read after.
  std::optional<Outcome> outcome_;
  std::exception_ptr exception_;
  Completion<void> done_;
};

template <class F>
Async<typename BlockingCall<F>::Outcome> run_on_pool(BlockingPool* pool, F function, Deadline deadline) {
  const bool too_late = co_await cancelled();
  if (too_late) {
    co_return wait_error(WaitEnd::kCancelled, "running blocking work").with_outcome(Outcome::kNotStarted);
  }
  auto call = std::make_shared<BlockingCall<F>>(std::move(function));
  auto queued = pool->submit([call](BlockingPool::Turn turn) { call->run(turn); });
  if (!queued.ok()) co_return std::move(queued).error();
  auto done = co_await call->wait(deadline);
  if (!done.ok()) {
    const bool never_ran = call->abandon();
    co_return std::move(done).error().with_outcome(never_ran ? Outcome::kNotStarted : Outcome::kUnknown);
  }
  co_return call->take();
}

}  // namespace detail

/// Runs `function` on a thread of the pool, while the calling coroutine waits; the coroutine then continues on its own
/// executor. Returns the function's result: an R as a Result<R>, a Result<R> as it is. An exception of the function is
/// thrown to the awaiting coroutine.
/// Fails with kOverloaded (the queue is full), kDeadlineExceeded, or kCancelled (the coroutine's group is cancelled, or
/// the pool is being destroyed). If error().outcome() is kNotStarted, the function never runs. If it is kUnknown, the
/// function may still run without its caller, and its result or exception is dropped: the function must therefore own
/// the objects it uses, by value or by shared_ptr, or use objects that outlive the pool.
template <class F>
auto run_blocking(BlockingPool& pool, F function, Deadline deadline) {
  return detail::run_on_pool<F>(&pool, std::move(function), deadline);
}

}  // namespace pharos::async
