#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pharos/node/failpoints.hpp>

#include "child_program.hpp"
#include "seed.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster::nodes {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class NodesTest : public SeveralNodes {
 protected:
  ChildProgram::End drain(const std::string& node) const {
    return ChildProgram{PHAROS_EXECUTABLE, {"drain", node, "--address", address_, "--token-file", token_file()}}.wait();
  }
};

TEST_F(NodesTest, ActorsOnTwoNodesAreCalledByTheDriverAndByEachOther) {
  start_three();
  const auto end = start_driver("actors")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "3 nodes");
  EXPECT_SAYS(end.output, "driver to c: 3");
  EXPECT_SAYS(end.output, "b to c: 7");
  EXPECT_SAYS(end.output, "5000 more: 5007");
  EXPECT_SAYS(end.output, "b asked c: 5008, 5009");
  EXPECT_SAYS(end.output, "made by b: 5");
  EXPECT_SAYS(end.output, "hello from afar");
  EXPECT_EQ(end.output.find("out of order"), std::string::npos);
}

TEST_F(NodesTest, CallsRunOnceAndInTheirOrderThoughTheirConnectionsBreakAgainAndAgain) {
  must_end_within(110s);
  start_three();
  const auto end = start_driver("cuts", {std::to_string(seed_of_test())})->wait(100s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "cut often\n");
  EXPECT_SAYS(end.output, "\nlast 20000 and 20000\n");
  EXPECT_SAYS(end.output, "\n0 wrong\n");
}

// The node is stopped for longer than the head waits before the release of a handle counts.
TEST_F(NodesTest, AnActorLivesWhileItsHandleIsHandedOverThoughTheReceiversNodeStandsStill) {
  constexpr auto kPause = 500ms;
  start_three();
  const pid_t node = daemon_of(*nodes_[0]);
  const auto driver = start_driver("hands_over", {folder()});
  read_until(*driver, "connected");
  ASSERT_EQ(::kill(node, SIGSTOP), 0);
  std::ofstream{folder() / "stands"} << '\n';
  read_until(*driver, "handed over");
  std::this_thread::sleep_for(kPause);
  ASSERT_EQ(::kill(node, SIGCONT), 0);
  EXPECT_SAYS(read_until(*driver, "given: "), "given: 7");
  read_until(*driver, "again");
  ASSERT_EQ(::kill(node, SIGSTOP), 0);
  fs::remove(folder() / "stands");
  read_until(*driver, "handed over");
  std::this_thread::sleep_for(kPause);
  ASSERT_EQ(::kill(node, SIGCONT), 0);
  const auto end = driver->wait();
  EXPECT_SAYS(end.output, "made: 3");
  EXPECT_EQ(end.status, 0) << end.output << end.error;
}

TEST_F(NodesTest, AGpuActorGoesToTheNodeThatHasAGpuAndTwoAreRefusedWithNumbers) {
  start_three();
  const auto end = start_driver("gpu")->wait();
  EXPECT_SAYS(end.output, "gpu 0\n");
  EXPECT_SAYS(end.output, "actor \"greedy\" asks for 2 GPUs; the node that comes nearest has 1 GPU");
  EXPECT_EQ(end.status, 0) << end.output << end.error;
}

TEST_F(NodesTest, TasksOfADriverWithoutCpusBesideItRunOnNodes) {
  start_three();
  const auto end = start_driver("tasks")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "sum 999000");
  EXPECT_SAYS(end.output, "tasks go where their resources are");
  EXPECT_SAYS(end.output, "first on b: 2");
  EXPECT_SAYS(end.output, "again on b: 42");
}

TEST_F(NodesTest, TasksGoOnToOtherNodesWhileTheirOwnIsFull) {
  start_three();
  const auto end = start_driver("overflow", {"3", folder()})->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "met on 3\nmet on 3\nmet on 3\n");
}

class DetachedTest : public SeveralNodes {
 protected:
  void expect_that_they_outlive_their_program();
};

TEST_F(DetachedTest, TheyAndWhatTheyHoldOutliveTheirProgramHoweverItEnds) {
  start_three();
  expect_that_they_outlive_their_program();
}

TEST_F(DetachedTest, TheyDoSoOnTheNodeThatTheirProgramHasJoined) {
  start_head("cpu=1,b=1,c=1");
  for (const auto& each : fs::recursive_directory_iterator{census().folder()}) {
    if (each.path().filename() == "node.sock") address_ = "unix:" + each.path().string();
  }
  ASSERT_TRUE(address_.starts_with("unix:"));
  expect_that_they_outlive_their_program();
}

void DetachedTest::expect_that_they_outlive_their_program() {
  for (const bool dies : {false, true}) {
    const auto driver =
        start_driver("leaves_detached", dies ? std::vector<std::string>{"dies"} : std::vector<std::string>{});
    const auto number_behind = [&](const std::string& word) {
      return static_cast<pid_t>(std::stoi(read_until(*driver, word).substr(word.size())));
    };
    const pid_t goes = number_behind("goes ");
    const pid_t held = number_behind("held ");
    read_until(*driver, "ready");
    if (dies) driver->kill(SIGKILL);
    static_cast<void>(driver->wait());
    EXPECT_TRUE(eventually([&] { return ::kill(goes, 0) != 0; }));
    EXPECT_EQ(::kill(held, 0), 0);
    EXPECT_TRUE(eventually([&] {  // fails while the program's own node is still ending
      ChildProgram stacks{PHAROS_EXECUTABLE, {"stack", "--address", address_, "--token-file", token_file()}};
      const auto shown = stacks.wait();
      return shown.status == 0 && shown.output.find("stays (") != std::string::npos;
    }));
    const auto found = start_driver("finds_detached")->wait();
    EXPECT_SAYS(found.output, "kept: 7\n") << found.error;
    EXPECT_SAYS(start_driver("ends_detached")->wait().output, "stopped\n");
    EXPECT_TRUE(eventually([&] { return ::kill(held, 0) != 0; }));
    EXPECT_SAYS(start_driver("finds_detached")->wait().output, "NotFound");
    EXPECT_TRUE(eventually([&] {
      ChildProgram list{PHAROS_EXECUTABLE, {"list", "jobs", "--address", address_, "--token-file", token_file()}};
      return list.wait().output.find("far_driver") == std::string::npos;
    })) << "its job is over";
  }
}

TEST_F(NodesTest, ANodeThatDrainsKeepsWhatRunsAndLosesWhatMayMoveAndEnds) {
  start_head();
  start_node("cpu=4,b=1,both=1");
  const std::string go = folder() / "go";
  const auto driver = start_driver("drained", {go});
  const std::string b = read_until(*driver, "b is ").substr(5);
  EXPECT_SAYS(read_until(*driver, "moving is on b"), "yes");
  read_until(*driver, "ready");
  start_node("cpu=4,both=1");
  EXPECT_SAYS(drain("77").error, "there is no node 0000000000000077");
  EXPECT_SAYS(drain("b").error, "no node");
  EXPECT_SAYS(drain("x?").error, "is no node's ID");
  EXPECT_EQ(drain(b).status, 0);
  std::ofstream{go} << "go";
  const auto end = driver->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "it moved\nwhat is fixed goes on: 1\ntasks ended: 6\n");
  const auto left = nodes_.front()->wait(20s);
  EXPECT_EQ(left.status, 0) << left.error;
  nodes_.erase(nodes_.begin());
}

TEST_F(NodesTest, ANodeThatDrainsIsEmptySoonHoweverManyTasksWaitAndLosesNone) {
  start_head();
  start_node("cpu=4,both=1");
  const std::string end = folder() / "end";
  const auto driver = start_driver("load", {end});
  const std::string b = read_until(*driver, "b is ").substr(5);
  read_until(*driver, "ready");
  start_node("cpu=4,both=1");
  EXPECT_EQ(drain(b).status, 0);
  const auto left = nodes_.front()->wait(10s);
  EXPECT_EQ(left.status, 0) << left.error;
  nodes_.erase(nodes_.begin());
  std::ofstream{end} << "end";
  const auto ended = driver->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  EXPECT_SAYS(ended.output, "0 wrong\n");
}

TEST_F(NodesTest, ObjectsThatExistOnlyOnANodeThatDrainsMoveToTheNodesThatNeedThem) {
  start_head();
  start_node("cpu=1,b=1");
  start_node("cpu=1,c=1");
  const std::string go = folder() / "go";
  const auto driver = start_driver("objects", {go});
  const std::string b = read_until(*driver, "b is ").substr(5);
  read_until(*driver, "ready");
  EXPECT_EQ(drain(b).status, 0);
  const auto left = nodes_.front()->wait(20s);
  EXPECT_EQ(left.status, 0) << left.error;
  nodes_.erase(nodes_.begin());
  std::ofstream{go} << "go";
  const auto end = driver->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "the driver has it: yes\nthe driver has it: yes\nc has them: yes\n");
}

TEST_F(NodesTest, IfANodeDiesThatTakesObjectsOfOneThatDrainsTheOthersStillGetThem) {
  start_head();
  start_node("cpu=1,b=1");
  ChildProgram& c =
      start_node("cpu=1,c=1", {{"PHAROS_FAILPOINT", std::string{node::failpoints::kObjectHere.name()} + ":kill:0"}});
  const std::string go = folder() / "go";
  const auto driver = start_driver("objects", {go});
  const std::string b = read_until(*driver, "b is ").substr(5);
  read_until(*driver, "ready");
  EXPECT_EQ(drain(b).status, 0);
  EXPECT_EQ(c.wait(20s).status, (128 + SIGKILL) << 8) << "its keeper says so";
  const auto left = nodes_.front()->wait(60s);
  EXPECT_EQ(left.status, 0) << left.error;
  nodes_.clear();
  std::ofstream{go} << "go";
  const auto end = driver->wait(60s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "the driver has it: yes\nthe driver has it: yes\nc is gone\n");
}

TEST_F(NodesTest, WhatCannotMoveEndsWhenTheTimeOfADrainIsOverAndSaysSo) {
  must_end_within(60s);
  start_head();
  ChildProgram& node = start_node("cpu=1,b=1");
  const auto driver = start_driver("fixed");
  const std::string b = read_until(*driver, "b is ").substr(5);
  read_until(*driver, "ready");
  const auto since = std::chrono::steady_clock::now();
  ChildProgram drain{PHAROS_EXECUTABLE,
                     {"drain", b, "--limit", "2", "--address", address_, "--token-file", token_file()}};
  EXPECT_EQ(drain.wait().status, 0);
  EXPECT_SAYS(read_until(*driver, "under way: "), "its node was drained, and the time limit of the drain is over");
  EXPECT_GE(std::chrono::steady_clock::now() - since, 2s) << "it had that time";
  EXPECT_SAYS(read_until(*driver, "later: "), "its node was drained, and the time limit of the drain is over");
  const auto ended = driver->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  const auto left = node.wait(20s);
  EXPECT_EQ(left.status, 0) << left.error;
  nodes_.clear();
}

TEST_F(NodesTest, AnExclusiveActorEndsByItselfBeforeItIsStartedElsewhere) {
  must_end_within(60s);
  start_head();
  start_node("cpu=1,both=1");
  const auto driver = start_driver("exclusive");
  const pid_t process = static_cast<pid_t>(std::stoi(read_until(*driver, "process ").substr(8)));
  read_until(*driver, "ready");
  start_node("cpu=1,both=1");
  const pid_t stopped = daemon_of(*nodes_.front());
  ::kill(stopped, SIGSTOP);
  read_until(*driver, "it is elsewhere");
  // The process may be a zombie: its node is stopped and has not reaped it.
  std::ifstream stat{"/proc/" + std::to_string(process) + "/stat"};
  const std::string text{std::istreambuf_iterator<char>{stat}, {}};
  EXPECT_TRUE(text.empty() || text.find(") Z ") != std::string::npos) << text;
  ::kill(stopped, SIGCONT);
  EXPECT_TRUE(nodes_.front()->error_with("the cluster has given this node up", 20s));
  read_until(*nodes_.front(), "joined the head at " + address_);
}

TEST_F(NodesTest, TasksGoToTheNodeThatHasTheirArguments) {
  start_three();
  const auto end = start_driver("nearest")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output,
              "to what is large: yes\nto what is small: no\nto what is large and ready: yes\n"
              "to what is small and ready: no\nan actor to what is large: yes\nto what is here, too: no\n");
}

TEST_F(NodesTest, LabelsNodesAndNearnessSayWhereActorsAndTasksGo) {
  start_head();
  start_node("cpu=2,b=1", {{"PHAROS_LABELS", "zone=b"}});
  start_node("cpu=2,c=1", {{"PHAROS_LABELS", "zone=c,disk=ssd"}});
  const auto end = start_driver("placed")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_EQ(end.output.find(": no\n"), std::string::npos) << end.output;
  EXPECT_SAYS(end.output,
              "a label's actor: yes\na label's task: yes\na node's actor: yes\na node's task: yes\n"
              "a preferred node's actor: yes\na preferred node's task: yes\na preferred node that is full: yes\n"
              "no preferred node: yes\nnear: yes");
  EXPECT_SAYS(end.output, "nodes: 3, seen by a task: 3\nlabels: yes\nwhat a node has: yes\nwhat is in use: yes\n");
  EXPECT_SAYS(end.output, "addresses: yes\nall together: yes\n");
  EXPECT_SAYS(end.output, "actor \"lost\" asks for nothing on a node with zone=x; there is no such node");
  EXPECT_SAYS(end.output, "the label \"zone=in(a, b\" is invalid: a name has");
  EXPECT_SAYS(end.output, "spread over 3\n");
}

TEST_F(NodesTest, WhatNoNodeCouldRunWaitsForANodeThatJoins) {
  start_three();
  const auto driver = start_driver("wants_node");
  EXPECT_SAYS(read_until(*driver, "in vain: "), "never");
  EXPECT_SAYS(read_until(*driver, "others wait"), "others wait: yes");
  start_node("cpu=1,late=4");
  const auto end = driver->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  for (const char* const each : {"task at ", "actor at ", "group at ", "member at "}) EXPECT_SAYS(end.output, each);
}

TEST_F(NodesTest, AGroupHasAllItsBundlesOrNoneAndItsActorsHaveThose) {
  start_three();
  const auto end = start_driver("groups")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_EQ(end.output.find(": no\n"), std::string::npos) << end.output;
  EXPECT_SAYS(end.output,
              "spread over 3\neach in its bundle: yes\na task waits: yes\nand runs in its bundle: yes\nwhere an actor "
              "follows it: yes\nanother waits: yes\nand has its turn: yes\n");
  EXPECT_SAYS(end.output, "asks for 2 CPUs; no bundle of group \"\" has more; the first has 1 CPU");
  EXPECT_SAYS(end.output, "group \"tight\" asks for 2 CPUs; the node that comes nearest has 1 CPU");
  EXPECT_SAYS(end.output, "a second group waits: yes\nthen has 2\n");
}

TEST_F(NodesTest, AGroupWhoseNodeIsLostGetsAnotherAndItsActorsMoveThere) {
  start_head();
  start_node("cpu=1,both=1");
  const auto driver = start_driver("group_loss");
  read_until(*driver, "ready");
  ::kill(daemon_of(*nodes_[0]), SIGKILL);
  static_cast<void>(nodes_[0]->wait());
  nodes_.clear();
  start_node("cpu=1,both=1");
  const auto end = driver->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "it moved with its bundle: yes\nand so do tasks: yes\n");
}

TEST_F(NodesTest, LargeValuesReachAnotherNode) {
  start_three();
  const auto end = start_driver("large")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "came back: 8388613 anigeb");
  EXPECT_SAYS(end.output, "held 1048576");
  EXPECT_SAYS(end.output, "measured 268435456");
  EXPECT_SAYS(end.output, "made of 8388608");
}

TEST_F(NodesTest, AtAProgramsEndTheDestructorsOfItsActorsElsewhereHaveRun) {
  start_three();
  const auto end = start_driver("stop")->wait();
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  const auto word_after = [&](const std::string& part) {
    const std::size_t begin = end.output.find(part) + part.size();
    return end.output.substr(begin, end.output.find('\n', begin) - begin);
  };
  EXPECT_SAYS(end.output, "last words on " + word_after("b is "));
  EXPECT_SAYS(end.output, "last words on " + word_after("c is "));
}

TEST_F(NodesTest, WhatAProgramWaitsForOnAnotherNodeSaysOnWhich) {
  start_three();
  const auto actor = start_driver("waits", {"actor"});
  const std::string c = actor->next_line().substr(5);
  EXPECT_SAYS(actor->error_after_quit_signal("it is alive"), "which is on node " + c + ", at 127.0.0.1:");
  EXPECT_SAYS(actor->error(), "waits for Counter::stay of actor \"far\"");
  actor->kill(SIGKILL);
  const auto task = start_driver("waits", {"task"});
  task->next_line();
  EXPECT_SAYS(task->error_after_quit_signal("runs on"), "runs on node " + c + ", at 127.0.0.1:");
  EXPECT_SAYS(task->error(), "waits for stay, a task");
}

TEST_F(NodesTest, ATaskThatWaitsForAWorkerOfAnotherNodeNamesTheClustersCpusAndWhereTasksHaveThem) {
  start_three();
  const auto driver = start_driver("waits", {"cpu"});
  const std::string c = driver->next_line().substr(5);
  const std::string text = driver->error_after_quit_signal(", the head's");
  EXPECT_SAYS(text, "which waits for a worker of another node, with 1 CPU; all nodes together have 3 CPUs");
  EXPECT_SAYS(text, "tasks have 1 CPU on node " + c + ", at 127.0.0.1:");
  EXPECT_SAYS(text, ", the head's\n");
}

TEST_F(NodesTest, AWrongTokenJoinsNothing) {
  start_head();
  const fs::path wrong = folder() / "wrong";
  std::ofstream{wrong, std::ios::binary} << std::string(32, 'w');
  fs::permissions(wrong, fs::perms::owner_read | fs::perms::owner_write);
  const auto node = start({"start", "--block", "--address", address_, "--token-file", wrong}, "cpu=1")->wait();
  EXPECT_EQ(node.status >> 8, 1);
  EXPECT_SAYS(node.error, "token");
  EXPECT_SAYS(node.error, address_);
  ChildProgram driver{FAR_DRIVER, {"actors"}, {{"PHAROS_ADDRESS", address_}, {"PHAROS_TOKEN_FILE", wrong}}};
  EXPECT_SAYS(driver.wait().output, "PermissionDenied: ");
}

TEST_F(NodesTest, ANodeThatIsAskedToBeAHeadSaysWhereTheHeadIs) {
  start_head();
  start_node("cpu=1");
  const std::string line = "listening at ";
  // start_node() has already read the line with the address of its node, so the test takes the address of another node.
  auto other = start({"start", "--block", "--address", address_, "--token-file", token_file()}, "cpu=1");
  const std::string said = read_until(*other, line);
  const std::string at_node = said.substr(said.find(line) + line.size());
  const auto lost = start({"start", "--block", "--address", at_node, "--token-file", token_file()}, "cpu=1")->wait();
  EXPECT_EQ(lost.status >> 8, 1);
  EXPECT_SAYS(lost.error, "Join its head, at " + address_);
  end(other);
}

TEST_F(NodesTest, ABusyPortIsNamed) {
  start_head();
  const auto second = start({"start", "--head", "--block", "--listen", address_}, "cpu=1")->wait();
  EXPECT_EQ(second.status >> 8, 1);
  EXPECT_SAYS(second.error, address_);
}

TEST_F(NodesTest, WhenANodesDaemonIsKilledItsActorsDieTypedOrMoveAndNothingOfItIsLeft) {
  must_end_within(60s);
  start_head();
  ChildProgram& b = start_node("cpu=1,b=1,both=1");
  const auto driver = start_driver("loss");
  read_until(*driver, "ready");
  start_node("cpu=1,both=1");
  ::kill(daemon_of(b), SIGKILL);
  b.wait();
  const auto end = driver->wait();
  EXPECT_SAYS(end.output, "ActorDied: ");
  EXPECT_SAYS(end.output, "\nmoved\n");
  EXPECT_EQ(end.status, 0) << end.output << end.error;
}

TEST_F(NodesTest, WhenTheHeadIsKilledNodesAndDriversEndInTime) {
  start_three();
  const auto driver = start_driver("quiet");
  read_until(*driver, "ready");
  ::kill(daemon_of(*head_), SIGKILL);
  for (const auto& node : nodes_) EXPECT_EQ(node->wait(5s).status >> 8, 1);
  EXPECT_SAYS(driver->wait(5s).output, "RuntimeStopped: ");
  head_->wait();
  head_.reset();
}

TEST_F(NodesTest, WhenADriverIsKilledItsActorsElsewhereEnd) {
  start_three();
  const auto driver = start_driver("quiet");
  read_until(*driver, "ready");
  driver->kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }));
  EXPECT_EQ(start_driver("gpu")->wait().status, 0) << "the next program has all there is";
}

TEST_F(NodesTest, WhateverAKilledDriverOwnedIsGoneEverywhereInFiveSeconds) {
  start_three();
  const auto driver = start_driver("owner");
  read_until(*driver, "ready");
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--address", address_, "--token-file", token_file()});
    return ChildProgram{PHAROS_EXECUTABLE, words}.wait().output;
  };
  EXPECT_SAYS(ask({"list", "actors", "--filter", "state=alive"}), "on c");
  const std::string memory = ask({"memory"});
  const std::string object = "  8.0 MiB  memory";
  const std::size_t at_one_node = memory.find(object);
  ASSERT_NE(at_one_node, std::string::npos) << memory;
  EXPECT_NE(memory.find(object, at_one_node + 1), std::string::npos) << memory;  // and at the other one
  driver->kill(SIGKILL);
  driver->wait();
  EXPECT_TRUE(eventually(
      [&] {
        return census().processes(Part::kWorker).empty() && census().processes(Part::kZygote).empty() &&
               ask({"status"}).starts_with("3 nodes, 0 programs") &&
               ask({"list", "actors", "--filter", "state=alive"}) == "no actors like that\n" &&
               ask({"list", "groups"}) == "no groups\n" && ask({"list", "objects"}) == "no objects\n";
      },
      5s))
      << ask({"status"}) << ask({"list", "actors"}) << ask({"list", "groups"}) << ask({"memory"});
  EXPECT_EQ(start_driver("actors")->wait().status, 0) << "the next program has all there is";
}

TEST_F(NodesTest, AnActorOfAnotherProgramIsNotEndedAndTheHeadsLogSaysWhoTried) {
  start_head();
  const std::string seen = folder() / "seen";
  const auto has_it = start_driver("has_actor", {seen});
  read_until(*has_it, "ready");
  for (const std::string mode : {"kills_others_actor", "stops_others_actor"}) {
    const auto other = start_driver(mode);
    const auto ended = other->wait();
    EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
    EXPECT_TRUE(head_->error_with("a program tried to end an actor of another program; the actor goes on")) << mode;
    EXPECT_SAYS(head_->error(), "actor=ours");
  }
  std::ofstream{seen} << "both";
  const auto ended = has_it->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  EXPECT_SAYS(ended.output, "it goes on: 2\n");
}

TEST_F(NodesTest, CtrlCEndsAHeadAndItsNodesWithAllBelowThem) {
  start_three();
  const auto driver = start_driver("quiet");
  read_until(*driver, "ready");
  for (const auto& node : nodes_) node->kill_group(SIGINT);
  for (const auto& node : nodes_) {
    const auto ended = node->wait();
    EXPECT_EQ(ended.status, 0) << ended.error;
  }
  head_->kill_group(SIGINT);
  const auto ended = head_->wait();
  EXPECT_EQ(ended.status, 0) << ended.error;
  head_.reset();
}

TEST_F(NodesTest, NodesInNetworksOfTheirOwnAndACutBetweenThem) {
  must_end_within(110s);
  if (::geteuid() != 0 || std::system("unshare -n true 2>/dev/null") != 0) {
    GTEST_SKIP() << "network namespaces cannot be made here";
  }
  ChildProgram script{"/usr/bin/unshare",
                      {"-n", NODES_IN_NAMESPACES, PHAROS_EXECUTABLE, FAR_DRIVER, FAR_OBJECTS, folder().string()}};
  const auto end = script.wait(100s);
  EXPECT_SAYS(end.output, "b to c: 7");
  EXPECT_SAYS(end.output, "5000 more: 5007");
  EXPECT_SAYS(end.output, "gpu 0\n");
  EXPECT_SAYS(end.output, "ActorDied: ");
  EXPECT_SAYS(end.output, "\nmoved\n");
  EXPECT_SAYS(end.output, "cut for moment:\npulling\npulled: right\n");
  EXPECT_SAYS(end.output, "cut for good:\npulling\npharos::ObjectLost: ");
  EXPECT_EQ(end.status, 0) << end.output << end.error;
}

}  // namespace
}  // namespace pharos::cluster::nodes
