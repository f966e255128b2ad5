#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/safeguard.hpp"
#include "workload.hpp"

namespace pharos::actors {
std::optional<Safeguard> safeguard_off;
}  // namespace pharos::actors

namespace pharos::simulator {
namespace {

using actors::Safeguard;

constexpr std::uint64_t kSeedsMax = 1000;

/// Returns whether something is wrong in this run, in a process of its own: a check of the runtime that fails ends it.
bool goes_red(std::uint64_t seed) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_workload(seed).wrong.empty() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status != 0;
}

/// Returns the first seed that fails without the safeguard; 0 if none does.
std::uint64_t found_without(Safeguard safeguard) {
  actors::safeguard_off = safeguard;
  std::uint64_t seed = 1;
  while (seed <= kSeedsMax && !goes_red(seed)) ++seed;
  actors::safeguard_off.reset();
  return seed <= kSeedsMax ? seed : 0;
}

class Drill : public ::testing::TestWithParam<Safeguard> {};

TEST_P(Drill, WithoutTheSafeguardASeedGoesRedAndWithItThatSeedIsGreen) {
  const std::uint64_t seed = found_without(GetParam());
  ASSERT_NE(seed, 0U);
  EXPECT_EQ(run_workload(seed).wrong, "");
  std::printf("found at seed %llu\n", static_cast<unsigned long long>(seed));
}

std::string name_of(const ::testing::TestParamInfo<Safeguard>& test) {
  constexpr const char* kNames[] = {"Deduplication", "Order", "Retry"};
  return kNames[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(EachSafeguard, Drill,
                         ::testing::Values(Safeguard::kDeduplication, Safeguard::kOrder, Safeguard::kRetry), name_of);

}  // namespace
}  // namespace pharos::simulator
