#include "waiting_room.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>

namespace pharos::actors {
namespace {

// The room that this thread leads: what it completes while it polls needs no waking, if it is its own.
thread_local const WaitingRoom* leading = nullptr;

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

void WaitingRoom::lead(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  const WaitingRoom* const outer = std::exchange(leading, this);
  while (!closed_.load()) {
    std::uint32_t state = word.load(std::memory_order_acquire);
    if (state == kReady || deadline.expired(time_now())) break;
    // A sleeper of the same result keeps its mark: waking it is a system call that wakes nobody else for nothing.
    if (state == kPending && !word.compare_exchange_strong(state, kLeader)) continue;
    // With a sleeper's mark on the word nobody would interrupt this poll, so it looks again by itself.
    const auto patience =
        state == kSleeper ? async::Deadline::after(std::chrono::milliseconds{1}, time_now()) : async::Deadline::never();
    reactor_.poll_one(std::min(deadline, patience), net::Reactor::Poller::kLeader);
  }
  std::uint32_t mine = kLeader;
  word.compare_exchange_strong(mine, kPending);
  leading = outer;
}

void WaitingRoom::sleep(std::atomic<std::uint32_t>& word, async::Deadline deadline) {
  std::uint32_t state = word.load(std::memory_order_acquire);
  if (state == kReady) return;
  // Over a leader's mark too: the leader of this very result then looks again by itself.
  if (state != kSleeper && !word.compare_exchange_strong(state, kSleeper)) return;
  timespec left{};
  if (!deadline.is_never()) {
    const Duration duration = deadline.left(time_now());
    left.tv_sec = static_cast<time_t>(duration.count() / 1'000'000'000);
    left.tv_nsec = static_cast<long>(duration.count() % 1'000'000'000);
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, kSleeper, deadline.is_never() ? nullptr : &left, nullptr, 0);
}

void WaitingRoom::complete(std::atomic<std::uint32_t>& word) {
  const std::uint32_t before = word.exchange(kReady, std::memory_order_acq_rel);
  if (abandoned_.load()) return;
  if (before == kSleeper) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  } else if (before == kLeader && leading != this && !closed_.load()) {
    reactor_.interrupt();
  }
}

void WaitingRoom::close() {
  closed_.store(true);
  while (inside_.load() != 0) {
    reactor_.interrupt();
    ::sched_yield();
  }
}

}  // namespace pharos::actors
