// Large values that go from node to node, also while streams break and nodes die.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/node/failpoints.hpp>
#include <pharos/object_store/failpoints.hpp>

#include "several_nodes.hpp"

namespace pharos::cluster::far_objects {
namespace {

using namespace std::chrono_literals;

class FarObjectsTest : public SeveralNodes {
 protected:
  std::unique_ptr<ChildProgram> start(const std::string& mode, Variables more = {}) const {
    return start_program(FAR_OBJECTS, {mode, folder() / "go"}, std::move(more));
  }
  /// The output of `pharos memory` for each node.
  std::vector<std::string> memories() const {
    std::vector<std::string> all;
    const std::string nodes = memory("--format json");
    const std::string nodes_alone = nodes.substr(0, nodes.find("\"objects\": ["));
    const std::regex id{R"re("node": "([0-9a-f]+)")re"};
    for (std::sregex_iterator each{nodes_alone.begin(), nodes_alone.end(), id}; each != std::sregex_iterator{};
         ++each) {
      all.push_back(memory("--node " + (*each)[1].str()));
    }
    return all;
  }
  /// The output of `pharos memory`, by way of any node.
  std::string memory(const std::string& arguments) const {
    const auto is_socket = [](const auto& entry) { return entry.path().filename() == "node.sock"; };
    const auto socket = std::find_if(fs::recursive_directory_iterator{census().folder()},
                                     fs::recursive_directory_iterator{}, is_socket);
    if (socket == fs::recursive_directory_iterator{}) throw std::runtime_error{"no node runs"};
    std::FILE* const out = ::popen(
        (PHAROS_EXECUTABLE " memory " + arguments + " --address unix:" + socket->path().string() + " 2>&1").c_str(),
        "re");
    char piece[4096];
    std::string text;
    while (const std::size_t n = std::fread(piece, 1, sizeof piece, out)) text.append(piece, n);
    ::pclose(out);
    return text;
  }
  static std::ptrdiff_t count_with(const std::vector<std::string>& texts, const std::string& part) {
    return std::count_if(texts.begin(), texts.end(),
                         [&](const auto& text) { return text.find(part) != std::string::npos; });
  }
  /// Runs the mode "once" with this failpoint order in both nodes.
  void value_goes_there_and_back_although(const std::string& failpoint) {
    must_end_within(60s);
    start_head();
    start_node("cpu=1,c=1", {{"PHAROS_FAILPOINT", failpoint}});
    const auto end = start("once", {{"PHAROS_FAILPOINT", failpoint}})->wait();
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    EXPECT_SAYS(end.output, "there: right");
    EXPECT_SAYS(end.output, "back: right");
  }
  /// Makes the file for which the program waits.
  void go_on() const { std::ofstream{folder() / "go"}; }
};

TEST_F(FarObjectsTest, ValuesAndRefsReachOtherNodesAndResultsStayUntilTheyAreRead) {
  must_end_within(60s);
  start_three();
  const auto program = start("keep");
  const auto said = [&] { return program->next_line(); };
  EXPECT_EQ(said(), "values outlive their Refs: yes");
  EXPECT_EQ(said(), "so do Refs: yes");
  EXPECT_EQ(said(), "b passed one to c: yes");
  EXPECT_EQ(said(), "and came back: yes");
  EXPECT_EQ(said(), "made on c");
  const auto before = memories();
  ASSERT_EQ(before.size(), 4U);
  EXPECT_EQ(count_with(before, "Keeper::make"), 2) << "at its node, and where somebody has a Ref of it";
  EXPECT_EQ(count_with(before, "other node"), 1) << "which is not read yet";
  go_on();
  EXPECT_EQ(said(), "b reads it: yes");
  EXPECT_EQ(said(), "here, too: yes");
  EXPECT_EQ(said(), "dropped");
  EXPECT_TRUE(eventually([&] { return count_with(memories(), "memory, a copy") == 1; }, 10s)) << "the program's own";
  fs::remove(folder() / "go");
  EXPECT_EQ(said(), "waits again");
  go_on();
  const auto end = program->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
}

TEST_F(FarObjectsTest, SeveralNodesThatPullOneObjectAllGetIt) {
  must_end_within(60s);
  start_three();
  const auto end = start("chain")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_EQ(end.output.find("wrong"), std::string::npos);
  EXPECT_SAYS(end.output, "right\ndone");
}

TEST_F(FarObjectsTest, ResultsThatDieWithTheirNodeAreMadeAgainOrLost) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,both=1");
  const auto program = start("lost");
  read_until(*program, "ready");
  ::kill(daemon_of(*nodes_[0]), SIGKILL);
  static_cast<void>(nodes_[0]->wait());
  nodes_.clear();
  start_node("cpu=1,both=1");
  go_on();
  const auto end = program->wait(40s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "made again: yes");
  EXPECT_SAYS(end.output, "and for another: yes");
  EXPECT_SAYS(end.output, "ObjectLost: ");
  EXPECT_SAYS(end.output, "is on another node and could not be fetched");
}

TEST_F(FarObjectsTest, WhatACallWillReadComesWhileOthersRunBeforeIt) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,c=1");
  const auto program = start("ahead");
  EXPECT_EQ(program->next_line(), "called");
  const auto has_come = [&] {
    const auto all = memories();
    return std::any_of(all.begin(), all.end(), [](const std::string& text) {
      return text.find("memory, a copy") != std::string::npos && text.find("\nObjects  1\n") != std::string::npos;
    });
  };
  EXPECT_TRUE(eventually(has_come, 10s));
  go_on();
  const auto end = program->wait();
  EXPECT_SAYS(end.output, "checked: right");
}

TEST_F(FarObjectsTest, WhatIsDamagedOnItsWayIsSentAgain) {
  value_goes_there_and_back_although("chunk_sent:fail_once:20");
}

TEST_F(FarObjectsTest, AStreamThatBreaksIsTakenUpAgain) {
  value_goes_there_and_back_although("chunk_received:fail_once:20");
}

TEST_F(FarObjectsTest, WhatNeverComesIsLostWithTheReason) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,c=1", {{"PHAROS_FAILPOINT", "chunk_received:fail:20"}});
  const auto end = start("once")->wait();
  EXPECT_EQ(end.status, 256) << end.output << end.error;
  EXPECT_SAYS(end.output, "ObjectLost: ");
  EXPECT_SAYS(end.output, "the stream has broken, says a failpoint");
}

/// A node dies at the failpoint: either the program's own node or the other node.
class FarFailpointsTest : public FarObjectsTest, public testing::WithParamInterface<Failpoint> {
 protected:
  Variables order() const { return {{"PHAROS_FAILPOINT", std::string{GetParam().name()} + ":kill:0"}}; }
};

TEST_P(FarFailpointsTest, TheOtherNodesDeathIsToldOfAndLeavesNothing) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,c=1", order());
  const auto end = start("once")->wait(50s);
  EXPECT_EQ(end.status, 256) << end.output << end.error;
  const bool typed =
      end.output.find("ActorDied: ") != std::string::npos || end.output.find("ObjectLost: ") != std::string::npos;
  EXPECT_TRUE(typed) << end.output;
  static_cast<void>(nodes_[0]->wait());
  nodes_.clear();
}

TEST_P(FarFailpointsTest, ItsOwnNodesDeathIsToldOfAndLeavesNothing) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,c=1");
  const auto end = start("once", order())->wait(50s);
  EXPECT_EQ(end.status, 256) << end.output << end.error;
  EXPECT_SAYS(end.output, "RuntimeStopped: ");
}

INSTANTIATE_TEST_SUITE_P(At, FarFailpointsTest,
                         testing::Values(node::failpoints::kObjectClaimed, node::failpoints::kObjectImported,
                                         object_store::failpoints::kChunkSent,
                                         object_store::failpoints::kChunkReceived),
                         [](const auto& test) { return std::string{test.param.name()}; });

}  // namespace
}  // namespace pharos::cluster::far_objects
