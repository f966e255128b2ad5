// Trainings on nodes that are being drained.

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "says.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster {
namespace {

using namespace std::chrono_literals;

class NoticeTest : public SeveralNodes {
 protected:
  std::unique_ptr<ChildProgram> start_training(const std::string& placement, const std::string& save_every = "0",
                                               const std::string& restarts = "0") const {
    return start({TRAINING_PROGRAM, folder() / "run", placement, save_every, restarts});
  }
  std::unique_ptr<ChildProgram> start(const std::vector<std::string>& words) const {
    auto program = start_program(words[0], {words.begin() + 1, words.end()});
    read_until(*program, "training");
    return program;
  }
  static void expect_moved(ChildProgram& program) {
    const auto end = program.wait(60s);
    EXPECT_EQ(end.status, 0) << end.error;
    EXPECT_SAYS(end.output, "each step once, with its sum\n");
    EXPECT_SAYS(end.output, ", under way\nagain: a rank had to leave its place\n");
  }
  std::string node_of(const std::string& actor) const {
    const std::string found = pharos({"list", "actors", "--filter", "name=" + actor, "--format", "json"});
    const std::string key = "\"node\": \"";
    const std::size_t begin = found.find(key);
    if (begin == std::string::npos) throw std::runtime_error{"no node in " + found};
    return found.substr(begin + key.size(), found.find('"', begin + key.size()) - begin - key.size());
  }
  std::string pharos(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--address", address_, "--token-file", token_file()});
    ChildProgram program{PHAROS_EXECUTABLE, std::move(arguments)};
    const auto end = program.wait();
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    return end.output;
  }
};

TEST_F(NoticeTest, RanksSaveTheSameStepAndGoOnElsewhereAndNoRestartIsUsedUp) {
  start_head("cpu=1");
  start_node("cpu=2");
  const auto program = start_training("pack");
  start_node("cpu=2");
  pharos({"drain", node_of("training/0")});
  expect_moved(*program);
}

/// A rank that gets no notice learns of the other rank's notice from its reports.
TEST_F(NoticeTest, OneThatIsNotToldSavesTheSameStepAsTheOneThatIs) {
  start_head("cpu=0");
  start_node("cpu=1");
  start_node("cpu=1");
  const auto program = start_training("spread");
  ASSERT_NE(node_of("training/0"), node_of("training/1"));
  start_node("cpu=1");
  pharos({"drain", node_of("training/1")});
  expect_moved(*program);
}

TEST_F(NoticeTest, ANodeThatIsToldToEndGivesNoticeInItsGrace) {
  start_head("cpu=1");
  ChildProgram& node = start_node("cpu=2", {}, {"--grace", "20"});
  const auto program = start_training("pack");
  start_node("cpu=2");
  node.kill(SIGTERM);
  expect_moved(*program);
  EXPECT_EQ(node.wait(30s).status, 0);
}

TEST_F(NoticeTest, WhereTheGraceIsTooShortItGoesOnFromACheckpointOfBefore) {
  start_head("cpu=1");
  ChildProgram& node = start_node("cpu=2", {}, {"--grace", "20"});
  const auto program = start_training("pack", "10", "1");
  start_node("cpu=2");
  node.kill(SIGTERM);
  node.kill(SIGTERM);
  EXPECT_EQ(node.wait(30s).status, 0);
  const auto end = program->wait(60s);
  EXPECT_EQ(end.status, 0) << end.error;
  EXPECT_SAYS(end.output, "each step once, with its sum\n");
  const std::string moved = "moved before step ";
  const std::size_t step = end.output.find(moved);
  ASSERT_NE(step, std::string::npos) << end.output;
  const int next = std::stoi(end.output.substr(step + moved.size()));
  // The ranks may have heard of the notice in time, and saved their step. Else the training goes on from a save of
  // every tenth step; the last of them may not have been complete.
  const bool saved_at_notice = end.output.find("again: a rank had to leave its place") != std::string::npos;
  EXPECT_GT(next, saved_at_notice ? 30 : 1) << end.output;
  if (!saved_at_notice) {
    EXPECT_EQ(next % 10, 1) << end.output;
  }
  EXPECT_SAYS(end.output, "\nagain: ");
}

#ifdef FITTING_PROGRAM
/// A rank that leaves after a notice is not taken for dead where ranks have copies of the state, and no part of the
/// state is lost where each rank has one.
class FitNoticeTest : public NoticeTest {
 protected:
  static void expect_same(ChildProgram& program) {
    const auto end = program.wait(60s);
    EXPECT_EQ(end.status, 0) << end.error;
    EXPECT_SAYS(end.output, "the same to the bit\nagain: a rank had to leave its place\n");
  }
};

TEST_F(FitNoticeTest, WhatIsLearnedByAnyStrategyGoesOnElsewhereToTheBit) {
  must_end_within(180s);
  start_head("cpu=1");
  start_node("cpu=2");
  for (const std::string strategy : {"copies", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(strategy);
    const auto program = start({FITTING_PROGRAM, folder() / strategy, "pack", strategy, "2", "30"});
    start_node("cpu=2");
    pharos({"drain", node_of("training/0")});
    expect_same(*program);
  }
}

TEST_F(FitNoticeTest, ARankThatLeavesAloneTakesTheOthersWithIt) {
  must_end_within(120s);
  start_head("cpu=0");
  start_node("cpu=1");
  start_node("cpu=1");
  const auto program = start({FITTING_PROGRAM, folder() / "run", "spread", "copies", "2", "30"});
  start_node("cpu=1");
  pharos({"drain", node_of("training/1")});
  expect_same(*program);
}
#endif

}  // namespace
}  // namespace pharos::cluster
