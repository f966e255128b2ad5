#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <pharos/base/clock.hpp>

namespace pharos::net {

/// Decides which thread spins before it sleeps, of all threads that poll one epoll set, and which threads stay out of
/// the set meanwhile.
/// A thread whose spin has found an event is hot: other threads stay out for kHotTime, unless a callback holds the hot
/// thread up for longer than kTakeOverTime. After spins without an event the next spins are skipped, more and more.
/// Owned by Reactor. Any thread may call; no call waits or fails.
class SpinTurns {
 public:
  /// Returns whether threads that are not hot have to stay out of the set at this time.
  bool keeps_others_out(TimePoint now) const;

  /// Returns whether the calling thread may spin now. It must then report by found() or found_nothing().
  bool begin();
  void found(TimePoint now);
  void found_nothing();

  /// A pair of calls around a callback on the calling thread.
  void begin_callback(TimePoint now);
  void end_callback();
  /// Returns whether the calling thread was the last one that spun.
  bool is_hot() const;

 private:
  static constexpr Duration kHotTime = std::chrono::milliseconds{1};
  static constexpr Duration kTakeOverTime = std::chrono::microseconds{50};
  static constexpr std::uint32_t kFailedMax = 7;  // after so many failed spins in a row, one wait of 128 spins

  // All are hints, and relaxed: an old value costs a spin, or a turn at the set.
  std::atomic<const void*> hot_thread_ = nullptr;                // the thread that spun last
  std::atomic<TimePoint> hot_until_ = TimePoint{};               // until then other threads leave the set to it
  std::atomic<TimePoint> in_callback_since_ = TimePoint::max();  // when its callback began; max(): it is in none
  std::atomic<std::uint32_t> failed_ = 0;                        // spins without an event, in a row
  std::atomic<std::uint32_t> to_skip_ = 0;                       // waits that do not spin, before the next try
};

}  // namespace pharos::net
