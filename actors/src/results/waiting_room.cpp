#include "results/waiting_room.hpp"

#include <utility>

#include "program/thread_state.hpp"

namespace pharos::actors {

void WaitingRoom::wait(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  if (this_thread.calls_back != nullptr && word.load(std::memory_order_acquire) != kReady) Callbacks::give_up_turn();
  while (word.load(std::memory_order_acquire) != kReady && !deadline.expired(sleepers_->now())) {
    if (abandoned_.load()) return;
    inside_.fetch_add(1);
    if (closed_.load()) {
      inside_.fetch_sub(1);
      sleep(word, deadline);
      continue;
    }
    flush_();
    if (led_.exchange(true)) {
      inside_.fetch_sub(1);
      sleep(word, deadline);
      continue;
    }
    lead(word, deadline);
    led_.store(false);
    inside_.fetch_sub(1);
  }
}

bool WaitingRoom::mark(std::atomic<std::uint32_t>& word, std::uint32_t mark) {
  std::uint32_t state = word.load(std::memory_order_acquire);
  while (state != kReady && !word.compare_exchange_weak(state, state | mark)) {
  }
  return state != kReady;
}

void WaitingRoom::lead(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  const WaitingRoom* const outer = std::exchange(this_thread.leading, this);
  while (mark(word, kLeader) && !closed_.load() && !deadline.expired(sleepers_->now())) {
    platform_.lead(deadline);
  }
  std::uint32_t state = word.load();
  while (state != kReady && !word.compare_exchange_weak(state, state & ~kLeader)) {
  }
  this_thread.leading = outer;
}

void WaitingRoom::sleep(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  if (!mark(word, kSleeper)) return;
  // If a leader sets or clears its mark in between, the word has another value: sleep() returns at once, and the caller
  // looks again.
  const std::uint32_t state = word.load(std::memory_order_acquire);
  if (state == kReady) return;
  sleepers_->sleep(word, state, deadline);
}

std::uint32_t WaitingRoom::complete(std::atomic<std::uint32_t>& word) {
  const std::uint32_t before = word.exchange(kReady, std::memory_order_acq_rel);
  if (abandoned_.load()) return before;
  if ((before & kSleeper) != 0) sleepers_->wake(word);
  if ((before & kLeader) == 0 || this_thread.leading == this) return before;
  inside_.fetch_add(1);
  if (!closed_.load()) platform_.interrupt_leader();
  inside_.fetch_sub(1);
  return before;
}

void WaitingRoom::flush() {
  inside_.fetch_add(1);
  if (!closed_.load() && !abandoned_.load()) flush_();
  inside_.fetch_sub(1);
}

void WaitingRoom::cancel(detail::ResultCell& cell) {
  inside_.fetch_add(1);
  if (!closed_.load() && !abandoned_.load()) cancel_(cell);
  inside_.fetch_sub(1);
}

void WaitingRoom::call_back(async::Callback then) {
  if (!abandoned_.load()) {
    const std::lock_guard lock{callbacks_mutex_};
    if (!closed_.load()) {
      if (callbacks_ == nullptr) callbacks_ = std::make_unique<Callbacks>(platform_);
      callbacks_->post(std::move(then));
      return;
    }
  }
  then();
}

void WaitingRoom::close() {
  closed_.store(true);
  std::unique_ptr<Callbacks> callbacks;
  {
    const std::lock_guard lock{callbacks_mutex_};
    callbacks = std::move(callbacks_);
  }
  callbacks.reset();  // the destructor runs the callbacks that were posted
  while (inside_.load() != 0) {
    platform_.interrupt_leader();
    platform_.yield();
  }
}

}  // namespace pharos::actors
