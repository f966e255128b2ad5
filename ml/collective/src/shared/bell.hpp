#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <pharos/base/clock.hpp>

namespace pharos::ml {

/// Lets the ranks of one machine wait for what other ranks write into shared memory. Each rank's Meeting owns a Bell
/// over the same shared words. Nothing fails; a rank that dies while it sleeps only costs the others needless system
/// calls. One thread, except ring() and has_sleepers().
///
/// All accesses are sequentially consistent: of a rank that changes something and one that goes to sleep at the same
/// time, at least one sees the store of the other, so that no change is slept through.
class Bell {
 public:
  /// Zeros at first.
  struct Shared {
    alignas(64) std::atomic<std::uint32_t> rung;  // the futex of ranks that sleep; ring() counts it up
    std::atomic<std::uint32_t> sleepers;
    std::atomic<std::int32_t> rung_on;  // the number of the CPU that ring() last ran on, plus 1
  };

  /// `shared` outlives the Bell. Ranks spin only if there is a CPU for each of them.
  Bell(Shared& shared, std::uint32_t ranks);

  bool has_sleepers() const { return shared_.sleepers.load(std::memory_order_seq_cst) != 0; }
  /// Wakes all ranks that sleep, so that they check their conditions. On any thread.
  void ring();

  /// Spins for some microseconds, and for fewer when spinning did not help before. Returns whether `is_so` became true.
  template <class F>
  bool spin(const F& is_so) {
    if (!may_spin_) return false;
    const TimePoint end = std::chrono::steady_clock::now() + spin_time_;
    do {
      for (int i = 0; i < kLooks; ++i) {
        if (is_so()) {
          spin_time_ = std::min(2 * spin_time_, kSpinMax);
          return true;
        }
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    spin_time_ = std::max(spin_time_ / 2, kSpinMin);
    return false;
  }

  /// Sleeps until ring(), at most for `most`; it may also return earlier. If `is_so` is true, it does not sleep, and
  /// returns true. A thread that wakes on the CPU of the rank that has rung goes to another CPU.
  template <class F>
  bool sleep_unless(const F& is_so, Duration most) {
    shared_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = shared_.rung.load(std::memory_order_seq_cst);
    const bool was_so = is_so();
    if (!was_so) sleep(seen, most);
    shared_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return was_so;
  }

 private:
  static constexpr Duration kSpinMin = std::chrono::microseconds{1};
  static constexpr Duration kSpinMax = std::chrono::microseconds{50};
  static constexpr int kLooks = 32;                                     // between two looks at the clock
  static constexpr Duration kMoveTime = std::chrono::milliseconds{10};  // at least, between two moves to another CPU

  static void pause();
  void sleep(std::uint32_t seen, Duration most);
  void leave_cpu_of_ringer();

  Shared& shared_;
  bool may_spin_ = false;
  Duration spin_time_ = kSpinMax;
  TimePoint moved_{};
};

inline void Bell::pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace pharos::ml
