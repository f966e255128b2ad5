#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "seed.hpp"
#include "temporary_folder.hpp"
#include "workload.hpp"

namespace pharos::simulator {
namespace {

constexpr std::uint64_t kSeeds = 500;

/// The seeds to run. Environment variables change them: PHAROS_TEST_SEED runs that seed alone. PHAROS_SIMULATOR_SEEDS
/// is the number of seeds, from the first one on. PHAROS_SIMULATOR_HASHES names a file to which each seed and the hash
/// of its run are written. With PHAROS_SIMULATOR_BACKWARDS the last seed runs first.
struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t count = kSeeds;
};
Seeds seeds() {
  Seeds drawn;
  if (std::getenv("PHAROS_TEST_SEED") != nullptr) drawn = {seed_of_test(), 1};
  if (const char* const count = std::getenv("PHAROS_SIMULATOR_SEEDS")) drawn.count = std::strtoull(count, nullptr, 10);
  return drawn;
}

TEST(Seeds, WithoutFaultsEverythingIsAnsweredOnce) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SeedRun run = run_workload(seed, {.faults = false});
    ASSERT_EQ(run.wrong, "") << "seed " << seed;
    ASSERT_GT(run.executions, 0U);
  }
}

TEST(Seeds, WhateverFailsEveryInvariantHolds) {
  const auto [first, count] = seeds();
  std::size_t calls = 0;
  std::size_t answered = 0;
  std::ofstream hashes;
  if (const char* const file = std::getenv("PHAROS_SIMULATOR_HASHES")) hashes.open(file);
  const bool backwards = std::getenv("PHAROS_SIMULATOR_BACKWARDS") != nullptr;
  for (std::uint64_t done = 0; done < count; ++done) {
    const std::uint64_t seed = backwards ? first + count - 1 - done : first + done;
    const SeedRun run = run_workload(seed);
    ASSERT_EQ(run.wrong, "") << "PHAROS_TEST_SEED=" << seed << " repeats it, PHAROS_TEST_TRACE=1 shows it";
    if (hashes.is_open()) hashes << seed << ' ' << std::hex << run.hash << std::dec << '\n';
    calls += run.calls;
    answered += run.answered;
  }
  std::printf("%llu seeds, %zu calls, %zu answered\n", static_cast<unsigned long long>(count), calls, answered);
}

// Shows that the checks of the other tests find an error if there is one.
TEST(Seeds, ADiskThatSaysTooEarlyThatSomethingIsDurableIsFoundOut) {
  std::uint64_t seed = 1;
  while (seed <= kSeeds && run_workload(seed, {.durable = true, .disk_lies = true}).wrong.empty()) ++seed;
  ASSERT_LE(seed, kSeeds);
  std::printf("found at seed %llu\n", static_cast<unsigned long long>(seed));
}

TEST(Seeds, TheSameSeedIsTheSameRun) {
  const auto [first, count] = seeds();
  for (std::uint64_t seed = first; seed < first + (count > kSeeds ? count : std::min<std::uint64_t>(count, 50));
       ++seed) {
    ASSERT_EQ(run_workload(seed).hash, run_workload(seed).hash) << "seed " << seed;
  }
}

// In the other process, process ids and addresses differ, and each seed runs after other seeds. The range includes
// seeds 34 and 48, in whose runs a node is told which threads wait.
TEST(Seeds, ASeedIsTheSameRunInAnotherProcessAndAfterOtherSeeds) {
  constexpr std::uint64_t kFirst = 34;
  constexpr std::uint64_t kCount = 15;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "hashes";
  const std::string other_process = "PHAROS_TEST_SEED=" + std::to_string(kFirst) +
                                    " PHAROS_SIMULATOR_SEEDS=" + std::to_string(kCount) +
                                    " PHAROS_SIMULATOR_BACKWARDS=1 PHAROS_SIMULATOR_HASHES='" + file.string() + "' '" +
                                    std::filesystem::read_symlink("/proc/self/exe").string() +
                                    "' --gtest_filter=Seeds.WhateverFailsEveryInvariantHolds";
  ASSERT_EQ(std::system(other_process.c_str()), 0);
  std::map<std::uint64_t, std::uint64_t> hashes;
  std::ifstream written{file};
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  while (written >> std::dec >> seed >> std::hex >> hash) hashes.emplace(seed, hash);
  ASSERT_EQ(hashes.size(), kCount);
  for (seed = kFirst; seed < kFirst + kCount; ++seed) {
    EXPECT_EQ(run_workload(seed).hash, hashes.at(seed)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pharos::simulator
