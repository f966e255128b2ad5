#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/wait.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/result.hpp>

namespace pharos::async {

/// A bounded queue between coroutines: senders wait while it is full, receivers while it is empty. Values, waiting
/// senders and waiting receivers are each served first in, first out. Each value goes to one receiver.
///
/// Owned by the object that closes it. The destructor closes it too, and the values that are left are lost; coroutines
/// that wait in it may outlive it.
/// Threads: any thread may call every member. Coroutines continue on their own executors.
/// Failure: kDeadlineExceeded and kCancelled, which leave the channel as it was. A call that need not wait succeeds
/// even after its deadline. A coroutine whose group is cancelled gets kCancelled at once. A value that was not sent is
/// destroyed.
/// End: after close(), sending fails with kCancelled. Receivers get the values that are left, and then kCancelled. A
/// loop can therefore treat a closed channel and a cancelled group alike.
/// Bounds: `capacity` values, and one more for each sender that waits.
template <class T>
class Channel {
 public:
  /// `capacity` is at least 1; 0 aborts the process.
  explicit Channel(std::size_t capacity) : state_{std::make_shared<State>(capacity)} {}
  Channel(Channel&&) = delete;
  ~Channel() { close(); }

  Async<Result<void>> send(T value, Deadline deadline) { return send_to(state_, std::move(value), deadline); }
  Async<Result<T>> receive(Deadline deadline) { return receive_from(state_, deadline); }

  /// Sends without waiting. Fails with kOverloaded when the channel is full, and with kCancelled when it is closed.
  Result<void> try_send(T value) {
    const std::size_t capacity = state_->capacity;
    switch (state_->offer(value, nullptr)) {
      case Step::kDone: return {};
      case Step::kClosed: return closed_error();
      case Step::kBlocked: break;
    }
    return Error{ErrorCode::kOverloaded, "the channel holds " + std::to_string(capacity) + " values, its bound",
                 "Try again after a pause."};
  }

  void close() { state_->close(); }
  bool closed() const {
    std::lock_guard lock{state_->mutex};
    return state_->closed;
  }
  std::size_t size() const {
    std::lock_guard lock{state_->mutex};
    return state_->values.size();
  }

 private:
  using Wait = detail::Wait;
  using WaitEnd = detail::WaitEnd;

  /// The Wait of a sender holds the value to send; the Wait of a receiver gets the value. Only the code that claims the
  /// Wait may touch the value.
  struct ValueWait : Wait {
    ValueWait(detail::Routine& routine, std::optional<T> sent) : Wait{routine}, value{std::move(sent)} {}
    std::optional<T> value;
  };
  using Waiters = std::deque<std::shared_ptr<ValueWait>>;

  enum class Step { kDone, kBlocked, kClosed };

  // Receivers wait only while the queue is empty, senders only while it is full.
  // No member is touched after a resume(), because the resumed coroutine may destroy the State.
  struct State {
    explicit State(std::size_t bound) : capacity{bound} { PHAROS_CHECK(bound > 0); }

    const std::size_t capacity;
    std::mutex mutex;
    bool closed = false;
    std::deque<T> values;
    Waiters senders;
    Waiters receivers;

    /// Moves `value` to a waiting receiver or into the queue. If the channel is full, leaves `value` where it is and
    /// queues `or_wait`, unless that is null.
    Step offer(T& value, const std::shared_ptr<ValueWait>& or_wait) {
      std::unique_lock lock{mutex};
      if (closed) return Step::kClosed;
      if (auto receiver = claim_first(receivers)) {
        receiver->value.emplace(std::move(value));
        lock.unlock();
        receiver->resume();
        return Step::kDone;
      }
      if (values.size() < capacity) {
        values.push_back(std::move(value));
        return Step::kDone;
      }
      if (or_wait) senders.push_back(or_wait);
      return Step::kBlocked;
    }

    /// Moves the oldest value into `receiver`. If the channel is empty, queues `receiver` to get a later value.
    Step take(const std::shared_ptr<ValueWait>& receiver) {
      std::unique_lock lock{mutex};
      if (values.empty()) {
        if (closed) return Step::kClosed;
        receivers.push_back(receiver);
        return Step::kBlocked;
      }
      receiver->value.emplace(std::move(values.front()));
      values.pop_front();
      if (auto sender = claim_first(senders)) {
        values.push_back(std::move(*sender->value));
        sender->value.reset();
        lock.unlock();
        sender->resume();
      }
      return Step::kDone;
    }

    /// Ends all waits: receivers wait only when no value is left, and senders that wait fail.
    void close() {
      std::unique_lock lock{mutex};
      closed = true;
      Waiters ended;
      while (auto receiver = claim_first(receivers)) ended.push_back(std::move(receiver));
      while (auto sender = claim_first(senders)) ended.push_back(std::move(sender));
      lock.unlock();
      for (const auto& wait : ended) wait->resume();
    }

    void forget(Waiters& waiters, const std::shared_ptr<ValueWait>& wait) {
      std::lock_guard lock{mutex};
      std::erase(waiters, wait);
    }

    /// Claims and returns the first Wait that neither its deadline nor a cancellation has claimed; null if none is
    /// left.
    static std::shared_ptr<ValueWait> claim_first(Waiters& waiters) {
      while (!waiters.empty()) {
        auto wait = std::move(waiters.front());
        waiters.pop_front();
        if (wait->claim(WaitEnd::kReady)) return wait;
      }
      return nullptr;
    }
  };

  static Error closed_error() { return {ErrorCode::kCancelled, "the channel is closed"}; }

  static Async<Result<void>> send_to(std::shared_ptr<State> state, T value, Deadline deadline) {
    detail::Routine& routine = co_await detail::current_routine();
    auto end = WaitEnd::kCancelled;
    if (!routine.cancelled()) {
      const auto wait = std::make_shared<ValueWait>(routine, std::move(value));
      const auto step = state->offer(*wait->value, wait);
      if (step == Step::kDone) co_return {};
      if (step == Step::kClosed) co_return closed_error();
      end = co_await detail::suspend(wait, deadline);
      if (end == WaitEnd::kReady && !wait->value) co_return {};
      if (end == WaitEnd::kReady) co_return closed_error();  // close() leaves the value in the Wait
      state->forget(state->senders, wait);
    }
    co_return detail::wait_error(end, "sending to a channel");
  }

  static Async<Result<T>> receive_from(std::shared_ptr<State> state, Deadline deadline) {
    detail::Routine& routine = co_await detail::current_routine();
    auto end = WaitEnd::kCancelled;
    if (!routine.cancelled()) {
      const auto wait = std::make_shared<ValueWait>(routine, std::nullopt);
      const auto step = state->take(wait);
      if (step == Step::kDone) co_return std::move(*wait->value);
      if (step == Step::kClosed) co_return closed_error();
      end = co_await detail::suspend(wait, deadline);
      if (end == WaitEnd::kReady && wait->value) co_return std::move(*wait->value);
      if (end == WaitEnd::kReady) co_return closed_error();  // close() puts no value into the Wait
      state->forget(state->receivers, wait);
    }
    co_return detail::wait_error(end, "receiving from a channel");
  }

  std::shared_ptr<State> state_;
};

}  // namespace pharos::async
