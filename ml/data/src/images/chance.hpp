#pragma once

#include <cmath>
#include <cstdint>

namespace pharos::ml {

/// The random numbers of one sample, made of its chance by SplitMix64 (Steele and others, 2014). One owner.
class Chance {
 public:
  explicit Chance(std::uint64_t chance) : state_{chance} {}

  /// Between low and high.
  double between(double low, double high) { return low + (high - low) * share(); }
  /// Between low and high, where each doubling is as probable as another one.
  double by_ratio(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  /// From 0 to below count, which is not 0.
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(share() * static_cast<double>(count)); }
  bool happens(double probability) { return share() < probability; }

 private:
  /// From 0 to below 1.
  double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace pharos::ml
