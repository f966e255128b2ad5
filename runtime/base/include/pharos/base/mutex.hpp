#pragma once

#include <atomic>
#include <cstdint>

namespace pharos {

/// A mutex for the locks that every call takes. Locking a free Mutex takes one atomic instruction in the place where it
/// is locked, and so does unlocking it; std::mutex takes two calls of functions and about 55 instructions (decision
/// 32). A thread that finds it locked sleeps in the kernel. A value inside the object that it protects; std::lock_guard
/// and std::unique_lock hold it. Any thread. Nothing fails. Not recursive: a thread that locks it twice waits for ever.
/// No thread may be in lock() or hold the mutex when it is destroyed. A std::condition_variable needs a std::mutex.
class Mutex {
 public:
  Mutex() = default;
  Mutex(Mutex&&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]]
      lock_after_waiting();
  }
  bool try_lock() {
    std::uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kLocked, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      wake_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kAwaited = 2;  // locked, and a thread may be sleeping until it is unlocked

  void lock_after_waiting();
  void wake_one();

  // Locking is an acquire and unlocking a release: whoever locks sees what the last holder wrote.
  std::atomic<std::uint32_t> state_ = kFree;
};

}  // namespace pharos
