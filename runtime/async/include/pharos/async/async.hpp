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

/// An awaiter that answers at once, from what the coroutine knows.
template <class T>
struct Known {
  T value;
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  T await_resume() const noexcept { return value; }
};

/// Runs a child to its end, on the same routine as the parent. Owns the child's frame.
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

  // What an Async may await. A foreign awaitable would resume it past its routine; wrap it with a Completion.
  template <class T>
  ChildAwaiter<T> await_transform(Async<T>&& child) {
    return ChildAwaiter<T>{std::move(child)};
  }
  // What says how: as_async(awaited), found beside its type.
  template <class T>
  auto await_transform(T&& awaited) requires requires {
    as_async(std::forward<T>(awaited));
  }
  { return await_transform(as_async(std::forward<T>(awaited))); }
  Suspension await_transform(Suspension&& suspension) { return std::move(suspension); }
  Known<Executor&> await_transform(CurrentExecutor) { return {routine->executor()}; }
  Known<bool> await_transform(Cancelled) { return {routine->cancelled()}; }
  Known<Routine&> await_transform(CurrentRoutine) { return {*routine}; }

  Routine* routine = nullptr;  // null until it is started
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

/// A coroutine that will bring a T. Lazy: it runs when it is awaited (`co_await f()`), on the executor of whoever
/// awaits it, or when an AsyncGroup spawns it. Awaited once, as an rvalue.
///
/// Owned by whoever holds it; one that was never started may be dropped, one that was started runs to its end: waits
/// are cut short by their deadline or by AsyncGroup::cancel(), coroutines never are.
/// Threads: it belongs to its executor; before it is started, to whoever holds it.
/// Failure: expected ones are an Async<Result<T>>; a foreign exception passes to whoever awaits it.
/// Depth and length of a chain of awaits cost heap, not stack.
///
/// Parameters of a coroutine are values (or pointers to what outlives it), and a lambda that captures never is one:
/// the frame would refer to captures that are gone at its first suspension. No co_await stands in the condition of an
/// if, while, for or switch: in a coroutine without local variables GCC 12 makes the frame too small for it, and the
/// heap is overwritten. `const bool ready = co_await f(); if (ready) …` is right.
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

  /// Runs once the routine gets to it, and then `parent`.
  void start(detail::Routine& routine, std::coroutine_handle<> parent) {
    PHAROS_CHECK(frame_ && frame_.promise().routine == nullptr);
    frame_.promise().routine = &routine;
    frame_.promise().parent = parent;
    routine.transfer_to(frame_);
  }
  /// What it brought, once it has ended; throws what it threw.
  T take() {
    if (frame_.promise().exception) std::rethrow_exception(std::move(frame_.promise().exception));
    return frame_.promise().take();
  }

  std::coroutine_handle<promise_type> frame_;
};

inline Async<void> detail::Promise<void>::get_return_object() {
  return Async<void>{std::coroutine_handle<Promise>::from_promise(*this)};
}

/// `Executor& executor = co_await current_executor();`
[[nodiscard]] inline detail::CurrentExecutor current_executor() {
  return {};
}

/// `const bool stop = co_await cancelled();` for those who work for long without a wait that would tell them.
[[nodiscard]] inline detail::Cancelled cancelled() {
  return {};
}

namespace detail {
/// For this folder: what a Wait is made for.
[[nodiscard]] inline CurrentRoutine current_routine() {
  return {};
}
}  // namespace detail

}  // namespace pharos::async

namespace pharos {
using async::Async;
}  // namespace pharos
