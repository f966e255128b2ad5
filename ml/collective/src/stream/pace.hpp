#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <pharos/base/clock.hpp>

namespace pharos::ml {

/// Bounds how many bytes are sent in a second. 0: no bound. Owned by PeerSockets, which asks may_send() before it
/// sends. Neither function waits or fails: what may be sent grows with the time, up to the bytes of 4 ms. One thread.
class Pace {
 public:
  explicit Pace(std::uint64_t bytes_per_second) : rate_{static_cast<double>(bytes_per_second)} {}

  bool is_bounded() const { return rate_ != 0; }
  std::size_t may_send() {
    if (!is_bounded()) return std::numeric_limits<std::size_t>::max();
    const TimePoint now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    last_ = now;
    saved_ = std::min(saved_ + since.count() * rate_, kSavedSeconds * rate_);
    return static_cast<std::size_t>(saved_);
  }
  void sent(std::size_t bytes) { saved_ -= static_cast<double>(bytes); }

 private:
  static constexpr double kSavedSeconds = 0.004;  // longer than a sleep of 1 ms between two turns really takes

  const double rate_;
  TimePoint last_ = std::chrono::steady_clock::now();
  double saved_ = 0;
};

}  // namespace pharos::ml
