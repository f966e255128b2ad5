// Nodes in networks of their own that are cut for a while, and processes that are stopped for a while.

#include <signal.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nodes_apart.hpp"
#include "seed.hpp"

namespace pharos::cluster::network_faults {
namespace {

using namespace std::chrono_literals;

using NetworkFaultsTest = NodesApart;

TEST_F(NetworkFaultsTest, RanksOnSeveralMachinesWorkTogetherAndHearAtOnceWhenANodeGoes) {
  must_end_within(90s);
  start_head_at(false);
  start_node_at(kB, "cpu=2,rank=2");
  start_node_at(kC, "cpu=2,rank=2");
  const auto program =
      network_->start(kProgram, RANKS_APART, {}, {{"PHAROS_ADDRESS", address_}, {"PHAROS_TOKEN_FILE", token_file()}});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(program->next_line(), "sum 10.000000");
  read_until(*program, "ready");
  nodes_.back()->kill(SIGKILL);
  const auto since = std::chrono::steady_clock::now();
  int of_ranks = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string line = read_until(*program, "failed: ");
    of_ranks += line.find(" has died: its connection has ended") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(of_ranks, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - since, 5s);
  EXPECT_EQ(program->next_line(), "then 3.000000");
  EXPECT_EQ(program->next_line(), "then 3.000000");
  EXPECT_EQ(program->wait(20s).status, 0);
  nodes_.pop_back();
}

TEST_F(NetworkFaultsTest, RanksThatALauncherHasStartedOnSeveralMachinesFindEachOther) {
  start_head_at(false);  // makes the token that the ranks need
  const auto start_rank = [&](int place, const std::string& rank) {
    return network_->start(place, RANKS_APART, {},
                           {{"RANK", rank},
                            {"WORLD_SIZE", "3"},
                            {"LOCAL_WORLD_SIZE", "1"},
                            {"MASTER_ADDR", Network::address_of(kB)},
                            {"MASTER_PORT", "29500"},
                            {"PHAROS_TOKEN_FILE", token_file()}});
  };
  const auto first = start_rank(kB, "0");
  const auto second = start_rank(kC, "1");
  const auto third = start_rank(kProgram, "2");
  for (auto* const rank : {&first, &second, &third}) {
    const auto ended = (*rank)->wait(20s);
    EXPECT_EQ(ended.output, "sum 6.000000\ndone\n") << ended.error;
  }
}

// The lengths of the cuts are what this test is about: all are below the time after which a silent node is given up.
TEST_F(NetworkFaultsTest, ACutThatIsShorterThanTheTimeThatNodesHaveIsNotSeenByAnybody) {
  must_end_within(90s);
  start_head_at(false);
  start_node_at(kB, "cpu=1,b=1");
  start_node_at(kC, "cpu=1,c=1");
  const auto program = start_far(UNDER_FAULTS, {"steady", file("stop")});
  read_until(*program, "ready");
  for (const auto length : {2000ms, 6500ms}) {
    network_->cut_off(kB);
    std::this_thread::sleep_for(length);
    network_->heal();
    std::this_thread::sleep_for(1s);
  }
  for (const auto& [from, to] : {std::pair{kHead, kB}, std::pair{kB, kHead}}) {
    network_->cut_way(from, to);
    std::this_thread::sleep_for(5s);
    network_->heal();
    std::this_thread::sleep_for(1s);
  }
  expect_steady(*program);
}

// Each round of 15 seconds has a cut of 3 seconds. PHAROS_TEST_ROUNDS is the number of rounds.
TEST_F(NetworkFaultsTest, CutsThatComeAgainAndAgainAreNotSeenByAnybody) {
  const int rounds = rounds_of_test(2);
  must_end_within(60s + rounds * 15s);
  start_head_at(false);
  start_node_at(kB, "cpu=1,b=1");
  start_node_at(kC, "cpu=1,c=1");
  const auto program = start_far(UNDER_FAULTS, {"steady", file("stop")});
  read_until(*program, "ready");
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) std::this_thread::sleep_for(12s);
    network_->cut_off(round % 2 == 0 ? kB : kC);
    std::this_thread::sleep_for(3s);
    network_->heal();
  }
  expect_steady(*program);
}

struct OneCluster {
  std::unique_ptr<ChildProgram> head;
  std::vector<std::unique_ptr<ChildProgram>> nodes;
  std::unique_ptr<ChildProgram> program;
};

// Two clusters, one with records and one without, run on the same machines, so that one cut tests both.
TEST_F(NetworkFaultsTest, AJobLosesNothingWhenTheHeadsMachineIsCutOffFor20SecondsWhetherThereAreRecordsOrNot) {
  must_end_within(120s);
  std::vector<OneCluster> clusters;
  for (const bool keeps_records : {false, true}) {
    start_head_at(keeps_records, "cpu=1,h=4", keeps_records ? "7401" : "7400");
    start_node_at(kB, "cpu=1,b=4");
    start_node_at(kC, "cpu=1,c=4");
    auto program = start_far(UNDER_FAULTS, {"around", file("stop")});
    read_until(*program, "ready");
    clusters.push_back({std::move(head_), std::exchange(nodes_, {}), std::move(program)});
  }
  const auto cut = std::chrono::steady_clock::now();
  network_->cut_off(kHead);
  for (const OneCluster& each : clusters) {
    EXPECT_TRUE(each.head->error_with("no message comes from any other machine", 12s)) << each.head->error();
  }
  std::this_thread::sleep_until(cut + 20s);  // the length of the cut
  network_->heal();
  for (const OneCluster& each : clusters) {
    EXPECT_TRUE(each.head->error_with("the link of this machine was down", 10s)) << each.head->error();
  }
  std::this_thread::sleep_for(3s);  // some time for further calls
  make("stop");
  for (OneCluster& each : clusters) {
    const auto ended = each.program->wait(60s);
    EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
    for (const char* const who : {"program to h: ", "c to h: ", "h to b: ", "h on c: "}) EXPECT_SAYS(ended.output, who);
    for (std::size_t at = ended.output.find(", "); at != std::string::npos; at = ended.output.find(", ", at + 1)) {
      EXPECT_EQ(ended.output.substr(at, 9), ", 0 wrong") << ended.output;
    }
    EXPECT_SAYS(ended.output, "out of order: 0\nthe same processes\n");
    EXPECT_EQ(each.head->error().find("given up"), std::string::npos) << each.head->error();
    for (auto& node : each.nodes) {
      EXPECT_EQ(node->error().find("has given this node up"), std::string::npos) << node->error();
      end(node);
    }
    end(each.head);
  }
}

enum class Cut { kOff, kOffWithoutRecords, kToNode, kToHead };

class LongCutsTest : public NetworkFaultsTest, public testing::WithParamInterface<Cut> {
 protected:
  /// Starts the actor "moving" on b, and then the node c, to which it can move.
  void begin() {
    start_head_at(GetParam() != Cut::kOffWithoutRecords);
    b_ = &start_node_at(kB, "cpu=1,b=1,both=1");
    program_ = start_far(UNDER_FAULTS, {"moving", file("stop"), file("sink")});
    read_until(*program_, "ready");
    start_node_at(kC, "cpu=1,both=1");
    read_until(*program_, "program sees incarnation 1");
  }
  void TearDown() override {
    program_.reset();
    NetworkFaultsTest::TearDown();
  }
  void cut() const {
    switch (GetParam()) {
      case Cut::kOff:
      case Cut::kOffWithoutRecords: return network_->cut_off(kB);
      case Cut::kToNode: return network_->cut_way(kHead, kB);
      case Cut::kToHead: return network_->cut_way(kB, kHead);
    }
  }
  static long now_in_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  /// Counts the lines that the first incarnation wrote too late. First: for calls of the program, after the second
  /// incarnation had answered one. Second: for calls of the neighbour, after the time `neighbours_until`.
  std::pair<int, int> late_lines(long neighbours_until) const {
    std::ifstream sink{file("sink")};
    std::string caller;
    int incarnation = 0;
    long when = 0;
    bool moved = false;
    std::pair<int, int> late;
    while (sink >> caller >> incarnation >> when) {
      if (caller == "program") {
        moved = moved || incarnation == 2;
        late.first += moved && incarnation == 1 ? 1 : 0;
      } else {
        late.second += when > neighbours_until && incarnation == 1 ? 1 : 0;
      }
    }
    EXPECT_TRUE(moved);
    return late;
  }

  ChildProgram* b_ = nullptr;
  std::unique_ptr<ChildProgram> program_;
};

TEST_P(LongCutsTest, ANodeThatIsCutOffIsGivenUpAndWhatItRanMovesAndItComesBackAsAnotherOne) {
  must_end_within(90s);
  begin();
  cut();
  const auto since = std::chrono::steady_clock::now();
  read_until(*program_, "program sees incarnation 2");
  EXPECT_LT(std::chrono::steady_clock::now() - since, 12s);
  // The reason is either that the node was silent, or that TCP has reported the broken connection.
  EXPECT_TRUE(head_->error_with(" given up", 1s));
  EXPECT_TRUE(eventually([&] { return sockets_to(kB, daemon_of(*head_)) == 0; }));
  EXPECT_GT(sockets_to(kC, daemon_of(*head_)), 0u);
  network_->heal();
  EXPECT_TRUE(b_->error_with("the cluster has given this node up", 5s));
  const long known = now_in_ms();
  read_until(*b_, "joined the head at " + address_);
  std::this_thread::sleep_for(2s);  // if the old incarnation still ran, it would write lines in this time
  make("stop");
  const auto ended = program_->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  EXPECT_EQ(late_lines(known + 1000), (std::pair{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Ways, LongCutsTest,
                         testing::Values(Cut::kOff, Cut::kOffWithoutRecords, Cut::kToNode, Cut::kToHead),
                         [](const auto& chosen) {
                           return chosen.param == Cut::kOff                 ? "BothWays"
                                  : chosen.param == Cut::kOffWithoutRecords ? "BothWaysWithoutRecords"
                                  : chosen.param == Cut::kToNode            ? "ToTheNode"
                                                                            : "ToTheHead";
                         });

enum class Between { kBothWays, kFromCaller, kToCaller };

class BetweenTest : public NetworkFaultsTest, public testing::WithParamInterface<Between> {
 protected:
  void cut() const {
    switch (GetParam()) {
      case Between::kBothWays: return network_->cut_both_ways(kB, kC);
      case Between::kFromCaller: return network_->cut_way(kB, kC);
      case Between::kToCaller: return network_->cut_way(kC, kB);
    }
  }
};

TEST_P(BetweenTest, TwoNodesThatDoNotReachEachOtherSayWhichAndGoOnAfterwards) {
  must_end_within(120s);
  start_head_at(false);
  start_node_at(kB, "cpu=1,b=1");
  start_node_at(kC, "cpu=1,c=1");
  const auto program = start_far(UNDER_FAULTS, {"between", file("cut"), file("healed")});
  const std::string b = read_until(*program, "b is ").substr(5);
  const std::string c = read_until(*program, "c is ").substr(5);
  read_until(*program, "ready");
  cut();
  make("cut");
  EXPECT_SAYS(read_until(*program, "with a deadline: "), "deadline");
  const std::string value = program->next_line(60s);
  EXPECT_SAYS(value, "value: ");
  EXPECT_SAYS(value, "node " + b);
  const std::string without = program->next_line(60s);
  EXPECT_SAYS(without,
              "without one: actor \"Counter\" cannot be reached: node " + c + ", at " + Network::address_of(kC));
  EXPECT_SAYS(without, "cannot be reached from node " + b);
  read_until(*program, "heal");
  network_->heal();
  make("healed");
  const auto ended = program->wait(60s);
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  EXPECT_SAYS(ended.output, "\nvalue afterwards: 1048576\n");
  expect_nobody_is_given_up();
}

INSTANTIATE_TEST_SUITE_P(Ways, BetweenTest,
                         testing::Values(Between::kBothWays, Between::kFromCaller, Between::kToCaller),
                         [](const auto& chosen) {
                           return chosen.param == Between::kBothWays     ? "BothWays"
                                  : chosen.param == Between::kFromCaller ? "FromTheCaller"
                                                                         : "ToTheCaller";
                         });

// ---- Processes that are stopped and go on. In PausesTest heads and nodes are stopped for longer.

class StoppedTest : public SeveralNodes {};

TEST_F(StoppedTest, NobodyDiesOfBeingStoppedForLessThanNodesHaveAndWorkersAndProgramsForLonger) {
  must_end_within(90s);
  start_head();
  ChildProgram& b = start_node("cpu=1,b=1");
  start_node("cpu=1,c=1");
  const auto program = start_program(UNDER_FAULTS, {"steady", folder() / "stop"});
  const std::string worker = read_until(*program, "worker ").substr(7);
  read_until(*program, "ready");
  const auto stop_for = [](std::vector<pid_t> processes, std::chrono::seconds time) {
    for (const pid_t process : processes) ::kill(process, SIGSTOP);
    std::this_thread::sleep_for(time);  // the time during which the processes are stopped
    for (const pid_t process : processes) ::kill(process, SIGCONT);
    std::this_thread::sleep_for(1s);
  };
  stop_for({daemon_of(b)}, 6s);
  stop_for({program->pid(), std::stoi(worker)}, 12s);
  std::ofstream{folder() / "stop"} << "there";
  const auto ended = program->wait(60s);
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  EXPECT_SAYS(ended.output, "calls, 0 wrong\nc: ");
  EXPECT_SAYS(ended.output, "calls, 0 wrong\nout of order: 0\n");
  EXPECT_EQ(head_->error().find("given up"), std::string::npos) << head_->error();
}

}  // namespace
}  // namespace pharos::cluster::network_faults
