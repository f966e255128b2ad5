#pragma once

#include <cstdint>
#include <string_view>

namespace pharos::ml {

/// Pseudorandom numbers. The sequence follows from the constructor's arguments and is the same on every machine. A
/// value; one thread at a time. Nothing fails.
class Random {
 public:
  /// Different things (for example, trials) and names have independent sequences.
  explicit Random(std::uint64_t seed, std::uint64_t thing = 0, std::string_view name = {})
      : state_{mixed(mixed(seed) ^ mixed(thing + kStep)) ^ hashed(name)} {}

  std::uint64_t next() { return mixed(state_ += kStep); }
  /// Returns a number above 0 and below 1.
  double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Returns a number of the normal distribution with mean 0 and standard deviation 1.
  double normal();
  /// Returns a whole number below n; all of them are equally likely. n must be above 0.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

 private:
  // SplitMix64 (Steele, Lea and Flood, 2014).
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static constexpr std::uint64_t hashed(std::string_view name) {
    std::uint64_t hash = 0;
    for (const char each : name) hash = mixed(hash + kStep + static_cast<unsigned char>(each));
    return hash;
  }

  std::uint64_t state_;
};

}  // namespace pharos::ml
