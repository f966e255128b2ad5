#pragma once

#include <cstdint>
#include <functional>

#include <pharos/base/export.hpp>

namespace pharos::testing {

/// Which seeds for_each_seed() takes.
struct Seeds {
  std::uint64_t count = 100;
  std::uint64_t first = 1;
  /// Asked after each seed: whether the test has failed without an exception. With GoogleTest:
  /// `.failed = [] { return ::testing::Test::HasFailure(); }`.
  std::function<bool()> failed{};
};

/// Calls `test` with one seed after the other, until it throws or has failed; prints that seed, and how to replay it.
/// An exception goes on to the caller. Environment variables choose other seeds: PHAROS_TEST_SEED=17 takes seed 17
/// alone, PHAROS_TEST_SEEDS=10000 takes so many. PHAROS_TEST_TRACE=1 prints each event and message of the clusters.
PHAROS_API void for_each_seed(const Seeds& seeds, const std::function<void(std::uint64_t seed)>& test);

}  // namespace pharos::testing
