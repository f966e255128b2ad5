// Models that are larger than the memory limit of a rank.

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "memory_group.hpp"

namespace pharos::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLimit = 450;  // MiB for each rank

class MemoryLimitTest : public ClusterTest {
 protected:
  void TearDown() override {
    for (const MemoryGroup& each : groups_) EXPECT_TRUE(eventually([&] { return each.remove(); }));
    ClusterTest::TearDown();
  }
  /// Starts one of `ranks` ranks, in a memory cgroup of its own if cgroups are available.
  std::unique_ptr<ChildProgram> start(int rank, int ranks, const std::string& how, bool is_limited) {
    std::string begin;
    if (is_limited) {
      MemoryGroup& group = groups_.emplace_back("pharos-rank-" + std::to_string(groups_.size()) + "-");
      if (const std::string why = group.make(kLimit); !why.empty()) {
        no_groups_ = why;
        return nullptr;
      }
      begin = "echo $$ > " + group.folder().string() + "/cgroup.procs; ";
    }
    return std::make_unique<ChildProgram>("/bin/sh",
                                          std::vector<std::string>{"-c", begin + "exec " LIMITED_RANK " " + how},
                                          ChildProgram::Variables{{"RANK", std::to_string(rank)},
                                                                  {"WORLD_SIZE", std::to_string(ranks)},
                                                                  {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                                  {"MASTER_PORT", "29511"}});
  }
  void expect_killed(const std::string& how) {
    const auto alone = start(0, 1, how, true);
    if (no_groups_) return;
    const auto end = alone->wait(60s);
    EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL)
        << how << " fits: " << end.status << end.output << end.error;
  }
  /// Four ranks within the limit print the same losses as one process without a limit.
  void expect_four_train(const std::string& how, const std::string& same) {
    std::vector<std::unique_ptr<ChildProgram>> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(start(rank, 4, how, true));
    std::string output;
    for (auto& each : ranks) {
      const auto end = each->wait(60s);
      EXPECT_EQ(end.status, 0) << end.error;
      output += end.output;
    }
    const auto whole = start(0, 1, same, false)->wait(60s);
    ASSERT_EQ(whole.status, 0) << whole.error;
    const std::vector<double> expected = losses_in(whole.output);
    const std::vector<double> found = losses_in(output);
    ASSERT_EQ(expected.size(), 4U);
    ASSERT_EQ(found.size(), 4U) << output;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], expected[i], 1e-3 * expected[i]) << i;
    EXPECT_LT(found.back(), found.front());
  }
  static std::vector<double> losses_in(const std::string& output) {
    std::vector<double> losses;
    std::istringstream lines{output};
    for (std::string line; std::getline(lines, line);) losses.push_back(std::strtod(line.c_str(), nullptr));
    return losses;
  }

  std::list<MemoryGroup> groups_;
  std::optional<std::string> no_groups_;
};

/// Parameters, gradients and the state of AdamW take 640 MiB. Each of four ranks has a quarter of that, and for a
/// moment the whole module when it begins.
TEST_F(MemoryLimitTest, FourRanksTrainWhatNoneOfThemCouldHaveAlone) {
  must_end_within(100s);
  expect_killed("whole adamw 40");
  if (no_groups_) GTEST_SKIP() << "no memory cgroup: " << *no_groups_;
  expect_four_train("sharded adamw 40", "whole adamw 40");
}

/// Parameters alone take 512 MiB. Each of four ranks keeps a quarter of the parameters and of the gradients, 256 MiB
/// together.
TEST_F(MemoryLimitTest, FourRanksTrainWhatNoneOfThemCouldMake) {
  must_end_within(100s);
  expect_killed("sharded sgd 128");
  if (no_groups_) GTEST_SKIP() << "no memory cgroup: " << *no_groups_;
  expect_four_train("sharded sgd 128 /var/tmp", "whole sgd 128");
}

}  // namespace
}  // namespace pharos::cluster
