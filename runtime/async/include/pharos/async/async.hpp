#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <pharos/async/executor.hpp>
#include <pharos/async/routine.hpp>
#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

template <class T>
class Async;

namespace detail {

class Outermost;

struct CurrentExecutor {};
struct Cancelled {};
struct CurrentRoutine {};

/// An awaiter that never suspends: it returns a value that the promise already has.
template <class T>
struct Known {
  T value;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  T await_resume() const noexcept { return value; }
};

/// Runs a child coroutine to its end, on the same Routine as the parent, and returns its result or throws its
/// exception. Owns the child's frame.
template <class T>
class ChildAwaiter {
 public:
  explicit ChildAwaiter(Async<T> child) : child_{std::move(child)} {}
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    child_.start(*parent.promise().routine, parent);
  }
  T await_resume() { return child_.take(); }

 private:
  Async<T> child_;
};

/// The promise in a coroutine's frame. It keeps an exception that leaves the coroutine until take(). Only the executor
/// uses it once the coroutine has started.
struct PromiseBase {
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      ended.promise().routine->transfer_to(ended.promise().parent);
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }

  // The await_transform overloads define what an Async may await. A foreign awaitable would resume the coroutine
  // without its Routine; wrap foreign awaitables in a Completion.
  template <class T>
  ChildAwaiter<T> await_transform(Async<T>&& child) {
    return ChildAwaiter<T>{std::move(child)};
  }
  // Any type with a function as_async(awaited), which argument-dependent lookup finds.
  template <class T>
  auto await_transform(T&& awaited) requires requires {
    as_async(std::forward<T>(awaited));
  }
  { return await_transform(as_async(std::forward<T>(awaited))); }
  Suspension await_transform(Suspension&& suspension) { return std::move(suspension); }
  Known<Executor&> await_transform(CurrentExecutor) { return {routine->executor()}; }
  Known<bool> await_transform(Cancelled) { return {routine->cancelled()}; }
  Known<Routine&> await_transform(CurrentRoutine) { return {*routine}; }

  Routine* routine = nullptr;  // null until the coroutine is started
  std::coroutine_handle<> parent;
  std::exception_ptr exception;
};

template <class T>
struct Promise : PromiseBase {
  Async<T> get_return_object() { return Async<T>{std::coroutine_handle<Promise>::from_promise(*this)}; }
  template <class U = T>
  requires std::constructible_from<T, U>
  void return_value(U&& result) { value.emplace(std::forward<U>(result)); }
  T take() { return std::move(*value); }

  std::optional<T> value;
};

template <>
struct Promise<void> : PromiseBase {
  Async<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

/// A coroutine that produces a T. It is lazy: it starts when a coroutine awaits it (`co_await f()`), on that
/// coroutine's executor, when an AsyncGroup spawns it, or when a worker begins it as a call. It can be awaited once, as
/// an rvalue: awaiting it again, or awaiting an Async that was moved from, aborts the process.
///
/// Owned by its holder. An Async that was never started may be dropped: its body never runs, and its parameters are
/// destroyed. An Async that was started runs to its end, and destroying it earlier aborts the process: a deadline or
/// AsyncGroup::cancel() ends single waits, never a coroutine. Threads: after the start it belongs to its executor,
/// before that to its holder.
/// Failure: expected failures are returned, as an Async<Result<T>>; exceptions pass to the awaiting coroutine.
/// Depth and length of a chain of awaits cost heap, not stack.
///
/// Parameters of a coroutine are values, or pointers to objects that outlive it. A lambda with captures must not be a
/// coroutine: the frame would refer to captures that are destroyed at its first suspension. No co_await may stand in
/// the condition of an if, while, for or switch: in a coroutine without local variables GCC 12 makes the frame too
/// small for it, and the heap is overwritten. Write `const bool ready = co_await f(); if (ready) …`.
template <class T>
class [[nodiscard]] Async {
  static_assert(!std::is_reference_v<T>, "an Async brings a value, or a pointer");

 public:
  using Value = T;
  using promise_type = detail::Promise<T>;

  Async(Async&& other) noexcept : frame_{std::exchange(other.frame_, {})} {}
  Async& operator=(Async&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Async() {
    if (!frame_) return;
    const bool waits = frame_.promise().routine != nullptr && !frame_.done();
    PHAROS_CHECK(!waits);
    frame_.destroy();
  }

 private:
  friend promise_type;
  friend detail::Outermost;
  friend detail::ChildAwaiter<T>;

  explicit Async(std::coroutine_handle<promise_type> frame) : frame_{frame} {}

  /// Makes this coroutine the next one that the routine resumes; `parent` is resumed after its end.
  void start(detail::Routine& routine, std::coroutine_handle<> parent) {
    PHAROS_CHECK(frame_ && frame_.promise().routine == nullptr);
    frame_.promise().routine = &routine;
    frame_.promise().parent = parent;
    routine.transfer_to(frame_);
  }
  /// Returns the coroutine's result after its end, or throws the coroutine's exception.
  T take() {
    if (frame_.promise().exception) std::rethrow_exception(std::move(frame_.promise().exception));
    return frame_.promise().take();
  }

  std::coroutine_handle<promise_type> frame_;
};

inline Async<void> detail::Promise<void>::get_return_object() {
  return Async<void>{std::coroutine_handle<Promise>::from_promise(*this)};
}

/// Gives a coroutine its executor: `Executor& executor = co_await current_executor();`
[[nodiscard]] inline detail::CurrentExecutor current_executor() {
  return {};
}

/// Tells a coroutine whether its group is cancelled: `const bool stop = co_await cancelled();`. For coroutines that
/// work for long without a wait, since only waits report a cancellation.
[[nodiscard]] inline detail::Cancelled cancelled() {
  return {};
}

namespace detail {
/// For this folder only: gives a coroutine its Routine, which it needs to make a Wait.
[[nodiscard]] inline CurrentRoutine current_routine() {
  return {};
}
}  // namespace detail

}  // namespace pharos::async

namespace pharos {
using async::Async;
}  // namespace pharos
