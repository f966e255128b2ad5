#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// A one-shot bridge from a callback, or from another thread, to a coroutine that waits.
///
///   Completion<Reply> reply;
///   connection.on_reply([reply](Reply r) mutable { reply.complete(std::move(r)); });
///   PHAROS_CO_TRY(auto value, co_await reply.wait(deadline));
///
/// All copies share one state, and the last copy frees it. A late complete(), after the waiter gave up, is therefore
/// harmless. If the side that was to complete it drops its copies, nothing tells the waiter, who waits until the
/// deadline.
/// Threads: complete() and fail() may be called from any thread. wait() may run on any executor, and its coroutine
/// continues there; a second wait at the same time aborts the process. Failure: wait() fails with kDeadlineExceeded,
/// kCancelled, or the error that was given to fail(). After kDeadlineExceeded the caller may wait again, and gets a
/// value that came in between. In a cancelled group each new wait fails with kCancelled, even if the value is there.
/// Bounds: one value, one waiter.
template <class T>
class Completion {
 public:
  /// The type of the value; a placeholder for Completion<void>.
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  /// The first complete() or fail() counts. Later ones return false and drop their value.
  bool complete(Value value) requires(!std::is_void_v<T>) { return state_->finish(std::move(value)); }
  bool complete() requires std::is_void_v<T> { return state_->finish(); }
  bool fail(Error error) { return state_->finish(std::move(error)); }

  /// Waits for the outcome and takes it out. Waiting again after that is a bug and aborts the process.
  Async<Result<T>> wait(Deadline deadline) { return wait_for(state_, deadline); }

 private:
  struct State {
    std::mutex mutex;
    bool finished = false;
    std::optional<Result<T>> outcome;
    std::shared_ptr<detail::Wait> waiter;

    template <class... ValueOrError>
    bool finish(ValueOrError&&... with) {
      std::unique_lock lock{mutex};
      if (std::exchange(finished, true)) return false;
      outcome.emplace(std::forward<ValueOrError>(with)...);
      const auto waiting = waiter;
      lock.unlock();
      if (waiting && waiting->claim(detail::WaitEnd::kReady)) waiting->resume();
      return true;
    }

    /// Returns true if the outcome is there. Otherwise stores `wait` as the waiter and returns false.
    bool ready_or_leave(std::shared_ptr<detail::Wait> wait) {
      std::lock_guard lock{mutex};
      PHAROS_CHECK(waiter == nullptr);
      PHAROS_CHECK(!finished || outcome.has_value());
      if (outcome) return true;
      waiter = std::move(wait);
      return false;
    }

    std::optional<Result<T>> end_wait() {
      std::lock_guard lock{mutex};
      waiter.reset();
      return std::exchange(outcome, std::nullopt);
    }
  };

  static Async<Result<T>> wait_for(std::shared_ptr<State> state, Deadline deadline) {
    detail::Routine& routine = co_await detail::current_routine();
    auto end = detail::WaitEnd::kCancelled;
    if (!routine.cancelled()) {
      auto wait = std::make_shared<detail::Wait>(routine);
      if (!state->ready_or_leave(wait)) end = co_await detail::suspend(wait, deadline);
      // The outcome is returned even if the deadline won the race, because a result is better than an error.
      if (auto outcome = state->end_wait()) co_return std::move(*outcome);
    }
    co_return detail::wait_error(end, "waiting for a completion");
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace pharos::async
