#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "census.hpp"
#include "says.hpp"

namespace pharos::cluster {

/// A test that starts clusters: has a run of its own, ends within its time or ends the program, and fails when anything
/// is left behind, in this process too.
class ClusterTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kTime{30};

  ClusterTest() : ClusterTest(0) {}
  /// With a folder whose path is so long.
  explicit ClusterTest(std::size_t path_bytes);

  void SetUp() override;
  void TearDown() override;

  /// For a test that takes longer than kTime; counted from now.
  static void must_end_within(std::chrono::seconds time);

  const Census& census() const { return *census_; }

 private:
  std::optional<Census> census_;
  Holdings before_;
};

/// How long that took.
template <class Call>
std::chrono::milliseconds time_of(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

}  // namespace pharos::cluster
