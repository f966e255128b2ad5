#pragma once

#include <cstdint>
#include <random>

#include <pharos/base/clock.hpp>

namespace pharos::simulator {

/// The random decisions (lots) of a simulated run. The same seed gives the same lots on every machine.
class Lots {
 public:
  explicit Lots(std::uint64_t seed) : random_{seed} {}

  std::uint64_t next() { return random_(); }
  /// Returns a number from 0 to `end`, without `end`.
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  /// Returns a number from `least` to `most`, both included.
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t times) { return below(times) == 0; }
  Duration between(Duration least, Duration most) {
    return least + Duration{static_cast<std::int64_t>(below(static_cast<std::uint64_t>((most - least).count()) + 1))};
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace pharos::simulator
