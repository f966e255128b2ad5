#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "census.hpp"
#include "says.hpp"

namespace pharos::cluster {

/// Base of the tests that start clusters. Each test has a Census of its own and a time limit; a test that exceeds the
/// limit ends the whole test program with status 124. The test fails if it leaves anything behind, on the machine or in
/// this process.
class ClusterTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kTime{30};

  ClusterTest() : ClusterTest(0) {}
  /// For a test whose PHAROS_FOLDER has a path of at least `path_bytes` bytes.
  explicit ClusterTest(std::size_t path_bytes);

  void SetUp() override;
  void TearDown() override;

  /// Replaces the time limit kTime. The new limit counts from this call.
  static void must_end_within(std::chrono::seconds time);

  const Census& census() const { return *census_; }

 private:
  std::optional<Census> census_;
  Holdings before_;
};

/// Runs the call and returns how long it took.
template <class Call>
std::chrono::milliseconds time_of(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace pharos::cluster
