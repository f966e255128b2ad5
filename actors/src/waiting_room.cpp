#include "waiting_room.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>

#include <pharos/base/thread_local.hpp>

namespace pharos::actors {
namespace {

// The room that this thread leads: what it completes while it polls needs no waking, if it is its own.
PHAROS_THREAD_LOCAL const WaitingRoom* leading = nullptr;

TimePoint time_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

void WaitingRoom::wait(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  while (word.load(std::memory_order_acquire) != kReady && !deadline.expired(time_now())) {
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
  const WaitingRoom* const outer = std::exchange(leading, this);
  while (mark(word, kLeader) && !closed_.load() && !deadline.expired(time_now())) {
    reactor_.poll_one(deadline, net::Reactor::Poller::kLeader);
  }
  std::uint32_t state = word.load();
  while (state != kReady && !word.compare_exchange_weak(state, state & ~kLeader)) {
  }
  leading = outer;
}

void WaitingRoom::sleep(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  if (!mark(word, kSleeper)) return;
  timespec left{};
  if (!deadline.is_never()) {
    const Duration duration = deadline.left(time_now());
    left.tv_sec = static_cast<time_t>(duration.count() / 1'000'000'000);
    left.tv_nsec = static_cast<long>(duration.count() % 1'000'000'000);
  }
  // Returns at once if the leader comes or goes in between; the caller then looks again.
  const std::uint32_t state = word.load(std::memory_order_acquire);
  if (state == kReady) return;
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, state, deadline.is_never() ? nullptr : &left, nullptr, 0);
}

std::uint32_t WaitingRoom::complete(std::atomic<std::uint32_t>& word) {
  const std::uint32_t before = word.exchange(kReady, std::memory_order_acq_rel);
  if (abandoned_.load()) return before;
  if ((before & kSleeper) != 0) ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  if ((before & kLeader) != 0 && leading != this && !closed_.load()) reactor_.interrupt();
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
      if (callbacks_ == nullptr) callbacks_ = std::make_unique<async::ThreadExecutor>("pharos-then");
      callbacks_->post(std::move(then));
      return;
    }
  }
  then();
}

void WaitingRoom::close() {
  closed_.store(true);
  std::unique_ptr<async::ThreadExecutor> callbacks;
  {
    const std::lock_guard lock{callbacks_mutex_};
    callbacks = std::move(callbacks_);
  }
  callbacks.reset();  // what was posted runs before
  while (inside_.load() != 0) {
    reactor_.interrupt();
    ::sched_yield();
  }
}

}  // namespace pharos::actors
