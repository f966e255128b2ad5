#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace pharos {

/// Returns the seed of a random test: PHAROS_TEST_SEED, or a new one. Prints it, so that a failure can be repeated.
inline std::uint64_t seed_of_test() {
  const char* const given = std::getenv("PHAROS_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu: PHAROS_TEST_SEED=%llu repeats it\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed));
  return seed;
}

/// Returns the number of rounds of a random test: PHAROS_TEST_ROUNDS, or `usually`.
inline int rounds_of_test(int usually) {
  const char* const given = std::getenv("PHAROS_TEST_ROUNDS");
  return given != nullptr ? std::stoi(given) : usually;
}

/// A test with random numbers from its seed.
class SeededTest : public ::testing::Test {
 protected:
  /// Returns a number from `least` to `most`, both included.
  std::size_t between(std::size_t least, std::size_t most) { return least + random_() % (most - least + 1); }
  bool chance(std::size_t one_in) { return random_() % one_in == 0; }
  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> result(count);
    for (std::byte& byte : result) byte = static_cast<std::byte>(random_());
    return result;
  }

  /// Calls `run` with this many seeds, from the test's own on, until a run fails.
  template <class Run>
  void for_seeds(std::uint64_t count, const Run& run) {
    for (std::uint64_t i = 0; i < count && !HasFatalFailure(); ++i) {
      SCOPED_TRACE("run " + std::to_string(i));
      run(seed_ + i);
    }
  }

  const std::uint64_t seed_ = seed_of_test();
  std::mt19937_64 random_{seed_};
};

}  // namespace pharos
