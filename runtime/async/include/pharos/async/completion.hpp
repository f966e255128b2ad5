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

/// The one-shot bridge from a callback, or from another thread, to a coroutine that waits.
///
///   Completion<Reply> reply;
///   connection.on_reply([reply](Reply r) mutable { reply.complete(std::move(r)); });
///   PHAROS_CO_TRY(auto value, co_await reply.wait(deadline));
///
/// Copies are the same completion; the last one frees it. So whoever completes it late, after the waiter gave up,
/// completes something that nobody looks at, which is harmless.
/// Threads: complete() and fail() from any thread; wait() on any executor, where its coroutine also goes on; one wait
/// at a time. Failure: kDeadlineExceeded, kCancelled (both may be followed by another wait, which finds what came in
/// between), or what was given to fail(). Bounds: one value, one waiter.
template <class T>
class Completion {
 public:
  /// What is handed over: for Completion<void>, nothing.
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  /// The first one counts: false, and the value is dropped, if it was completed or failed before.
  bool complete(Value value) requires(!std::is_void_v<T>) { return state_->finish(std::move(value)); }
  bool complete() requires std::is_void_v<T> { return state_->finish(); }
  bool fail(Error error) { return state_->finish(std::move(error)); }

  /// Takes the outcome, which is there once: waiting again after that is a bug.
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

    /// Leaves `wait` behind unless the outcome is there.
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
      // Even when the deadline won the race: what has come is better than an error.
      if (auto outcome = state->end_wait()) co_return std::move(*outcome);
    }
    co_return detail::wait_error(end, "waiting for a completion");
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace pharos::async
