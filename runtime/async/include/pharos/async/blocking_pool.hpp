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

/// Threads for what blocks (disk, fsync, a C library), so that no executor ever does.
///
/// Owned by the object graph, above everything that uses it. Threads: submit() from any thread.
/// Failure: kOverloaded when `queue_bound` jobs wait for a thread; what the jobs do is their own.
/// End: the destructor refuses what is queued, waits for what runs (so a job must end by itself), joins its threads.
/// Bounds: `threads` jobs run, `queue_bound` wait.
class PHAROS_API BlockingPool {
 public:
  enum class Turn {
    kRun,
    kRefused,  ///< the pool is going away
  };
  /// Called once, on a pool thread or, when it is refused, on the one that destroys the pool. Must not throw.
  using Job = UniqueFunction<void(Turn)>;

  BlockingPool(std::size_t threads, std::size_t queue_bound);
  BlockingPool(BlockingPool&&) = delete;
  ~BlockingPool();

  /// What run_blocking() does for a coroutine; a job that was not accepted is never called.
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

/// One function on its way through the pool. Shared by the coroutine and the job: either may be gone first.
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

  /// True if the function has not started; then it never will.
  bool abandon() { return !started_or_abandoned_.exchange(true); }

  Async<Result<void>> wait(Deadline deadline) { return done_.wait(deadline); }

  /// After a wait() that succeeded.
  Outcome take() {
    if (exception_) std::rethrow_exception(std::move(exception_));
    return std::move(*outcome_);
  }

 private:
  F function_;
  std::atomic<bool> started_or_abandoned_{false};
  // Written before done_ is completed, read after.
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

/// Runs `function` on a thread of the pool; the coroutine goes on on its own executor.
/// Brings what it returns: R as a Result<R>, a Result<R> as it is. What it throws is thrown to the awaiter.
/// Fails with kOverloaded (the queue is full), kDeadlineExceeded or kCancelled; error().outcome() tells whether it has
/// not started, and then it never will. Otherwise it goes on without its caller, and what it returns is dropped: so it
/// owns what it touches, by value or by shared_ptr, or touches what outlives the pool.
template <class F>
auto run_blocking(BlockingPool& pool, F function, Deadline deadline) {
  return detail::run_on_pool<F>(&pool, std::move(function), deadline);
}

}  // namespace pharos::async
