#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "child_program.hpp"
#include "durable_head.hpp"
#include "run/journal.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::tuner {
namespace {

using namespace std::chrono_literals;
using cluster::ChildProgram;

/// Sweeps in programs that end in the middle, in different ways, and are resumed by other programs.
class KilledSweeps : public cluster::DurableHead {
 protected:
  static constexpr std::uint64_t kTrials = 60;
  static constexpr std::uint64_t kSteps = 6;

  TemporaryFolder folder_;  // the folder of the sweep

  struct Seen {
    std::map<std::uint64_t, Metrics> returned;
    std::map<std::uint64_t, std::uint64_t> steps;  // steps that were reported
  };
  Seen read() const {
    Seen seen;
    const auto contents = Journal::read(folder_.path() / "journal", [&](const SweepEvent& event) -> Result<void> {
      if (const auto* const returned = std::get_if<TrialReturned>(&event)) {
        EXPECT_TRUE(seen.returned.emplace(returned->trial, returned->metrics).second)
            << "trial " << returned->trial << " has two results";
      } else if (const auto* const reported = std::get_if<TrialReported>(&event)) {
        EXPECT_EQ(++seen.steps[reported->trial], reported->step) << "of trial " << reported->trial;
      }
      return {};
    });
    EXPECT_TRUE(contents || contents.error().code() == ErrorCode::kNotFound) << contents.error().to_string();
    return seen;
  }
  std::size_t lines_of_ran() const {
    std::ifstream ran{folder_.path() / "ran"};
    std::size_t lines = 0;
    for (std::string line; std::getline(ran, line);) ++lines;
    return lines;
  }
  /// Waits until so many lines have been written, or until the program has ended.
  void wait_until_so_many_steps_ran(std::size_t lines, ChildProgram& program) const {
    EXPECT_TRUE(cluster::eventually([&] { return lines_of_ran() >= lines || program.ended(); }));
  }
  /// How many lines each trial and step has.
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> ran() const {
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> all;
    std::ifstream file{folder_.path() / "ran"};
    std::uint64_t trial = 0;
    std::uint64_t step = 0;
    while (file >> trial >> step) ++all[{trial, step}];
    return all;
  }
  ChildProgram begin() const { return ChildProgram{SWEEP_PROGRAM, {folder_.path().string()}}; }

  using Ran = std::map<std::pair<std::uint64_t, std::uint64_t>, int>;
  void check_the_end(const Ran& ran_before, const Seen& before) const {
    const Seen seen = read();
    EXPECT_EQ(seen.returned.size(), kTrials);
    for (std::uint64_t trial = 0; trial < kTrials; ++trial) EXPECT_EQ(seen.steps.at(trial), kSteps) << trial;
    check_that_nothing_is_done_again(ran_before, before);
  }
  void check_that_nothing_is_done_again(const Ran& ran_before, const Seen& before) const {
    const Seen seen = read();
    const auto all = ran();
    for (const auto& [trial, metrics] : before.returned) {
      EXPECT_EQ(seen.returned.at(trial), metrics);
      for (std::uint64_t step = 1; step <= kSteps; ++step) {
        EXPECT_EQ(all.at({trial, step}), ran_before.at({trial, step})) << "trial " << trial << " was finished";
      }
    }
  }
};

TEST_F(KilledSweeps, ATunerThatIsKilledTwentyTimesLosesNothingAndRunsOnlyWhatIsUnfinished) {
  must_end_within(120s);
  std::mt19937_64 random{seed_of_test()};
  std::size_t repeated = 0;
  for (int kill = 0; kill < 20; ++kill) {
    const Seen before = read();
    const auto ran_before = ran();
    if (before.returned.size() == kTrials) break;
    ChildProgram program = begin();
    static_cast<void>(program.next_line());
    wait_until_so_many_steps_ran(lines_of_ran() + 1 + random() % 30, program);
    program.kill(SIGKILL);
    static_cast<void>(program.wait());
    check_that_nothing_is_done_again(ran_before, before);
  }
  const Seen before = read();
  const auto ran_before = ran();
  ChildProgram last = begin();
  const auto end = last.wait(30s);
  EXPECT_EQ(end.status, 0) << end.error;
  EXPECT_NE(end.output.find("ends 60"), std::string::npos) << end.output;
  check_the_end(ran_before, before);
  for (const auto& [step, times] : ran()) repeated += static_cast<std::size_t>(times - 1);
  // Each kill repeats at most the steps of four trials, whose last checkpoints may not have been on the disk yet.
  EXPECT_LE(repeated, 20U * 4 * kSteps);
}

TEST_F(KilledSweeps, CtrlCEndsASweepInOrderAndSaysHowToGoOn) {
  ChildProgram program = begin();
  static_cast<void>(program.next_line());
  wait_until_so_many_steps_ran(40, program);
  for (int i = 0; i < 2; ++i) program.kill(SIGINT);  // a terminal and a wrapper may both pass it on
  const auto end = program.wait();
  EXPECT_TRUE(WIFEXITED(end.status));
  EXPECT_EQ(WEXITSTATUS(end.status), 130);
  EXPECT_NE(end.output.find("interrupted"), std::string::npos) << end.output;
  EXPECT_NE(end.error.find("pharos tune resume " + folder_.path().string()), std::string::npos) << end.error;
  const Seen before = read();
  const auto ran_before = ran();
  EXPECT_LT(before.returned.size(), kTrials);
  ChildProgram rest = begin();
  EXPECT_EQ(rest.wait(30s).status, 0);
  check_the_end(ran_before, before);
}

TEST_F(KilledSweeps, AClusterThatDiesEndsTheProgramWithTheReasonAndTheSweepGoesOnInAnother) {
  must_end_within(60s);
  ChildProgram program = begin();
  static_cast<void>(program.next_line());
  wait_until_so_many_steps_ran(40, program);
  for (const auto& daemon : census().processes(cluster::Part::kNode)) ::kill(daemon.pid, SIGKILL);
  const auto end = program.wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 3) << end.output << end.error;
  const Seen before = read();
  const auto ran_before = ran();
  ChildProgram rest = begin();
  EXPECT_EQ(rest.wait(30s).status, 0);
  check_the_end(ran_before, before);
}

/// Nodes have room for two trials each, and the checkpoints of a trial are not on its node.
TEST_F(KilledSweeps, NodesAndTheHeadThatDieCostOnlyWhatWasUnderWay) {
  must_end_within(180s);
  start_durable_head();
  for (int i = 0; i < 2; ++i) start_node("cpu=1,post=2");
  const auto program = start_program(SWEEP_PROGRAM, {folder_.path().string(), "post"});
  static_cast<void>(program->next_line());
  std::mt19937_64 random{seed_of_test()};
  for (int kill = 0; kill < 4; ++kill) {
    wait_until_so_many_steps_ran(lines_of_ran() + 20 + random() % 20, *program);
    if (kill % 2 == 0) {
      auto& node = nodes_[random() % nodes_.size()];
      ::kill(daemon_of(*node), SIGKILL);
      node->wait();
      std::swap(node, nodes_.back());
      nodes_.pop_back();
      start_node("cpu=1,post=2");
    } else {
      kill_head();
      start_durable_head();
    }
  }
  const auto end = program->wait(100s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  check_the_end({}, {});
  std::size_t repeated = 0;
  for (const auto& [step, times] : ran()) repeated += static_cast<std::size_t>(times - 1);
  EXPECT_LE(repeated, 4U * 4 * kSteps);
}

}  // namespace
}  // namespace pharos::ml::tuner
