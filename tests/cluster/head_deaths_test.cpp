// A change that was acknowledged is not lost, whichever process dies. The program `changing` changes the cluster 200
// times a second and prints which changes were acknowledged. The tests record these lines while they kill heads, nodes
// and workers.

#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/failpoint.hpp>

#include "child_program.hpp"
#include "durable_head.hpp"
#include "network.hpp"
#include "promised.hpp"
#include "seed.hpp"

namespace pharos::cluster::head_deaths {
namespace {

using namespace std::chrono_literals;

int rounds_wanted() {
  return rounds_of_test(5);
}

/// The last state of each actor that was acknowledged to the program `changing`, to compare with what is found at the
/// end.
class Oracle {
 public:
  void note(const std::string& line) {
    const std::string name = line.substr(1);
    switch (line.front()) {
      case '?': known_[name] = State::kAsked; break;
      case '+':
        known_[name] = State::kThere;
        ++acknowledged_;
        break;
      case '-':
        known_[name] = State::kGone;
        ++acknowledged_;
        break;
      default: wrong_ += line + '\n';
    }
  }
  void compare(const std::string& name, bool is_there) {
    ++compared_;
    const auto known = known_.find(name);
    if (known == known_.end()) {
      wrong_ += name + " was never heard of\n";
    } else if (known->second == State::kThere && !is_there) {
      wrong_ += name + " was acknowledged, and is lost\n";
    } else if (known->second == State::kGone && is_there) {
      wrong_ += name + " was acknowledged to be gone, and is there\n";
    }
  }
  const std::string& wrong() const { return wrong_; }
  int acknowledged() const { return acknowledged_; }
  std::size_t compared() const { return compared_; }
  std::size_t known() const { return known_.size(); }

 private:
  enum class State { kAsked, kThere, kGone };
  std::map<std::string, State> known_;
  int acknowledged_ = 0;
  std::size_t compared_ = 0;
  std::string wrong_;
};

class HeadDeathsTest : public DurableHead {
 protected:
  /// Records the program's lines for this time.
  void listen_for(ChildProgram& program, std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) oracle_.note(program.next_line(60s));
  }
  /// Waits for a second in which nearly 200 changes were acknowledged.
  void wait_for_full_load(ChildProgram& program) {
    constexpr int kFull = kIsSanitized ? 50 : 180;
    int most = 0;
    for (int second = 0; second < 20 && most < kFull; ++second) {
      const int before = oracle_.acknowledged();
      listen_for(program, 1s);
      most = std::max(most, oracle_.acknowledged() - before);
    }
    std::printf("%d changes were acknowledged in one second\n", most);
    ASSERT_GE(most, kFull) << "this machine cannot make the load that the test is about";
  }
  void finish(ChildProgram& program) {
    look(program);
    EXPECT_EQ(oracle_.wrong(), "");
  }
  void look(ChildProgram& program) {
    std::ofstream{stop_file()} << "stop";
    for (std::string line = program.next_line(90s); line != "ended"; line = program.next_line(90s)) oracle_.note(line);
    for (std::string line = program.next_line(90s); line != "done"; line = program.next_line(90s)) {
      const bool is_there = line.starts_with("is ");
      if (is_there || line.starts_with("no ")) {
        oracle_.compare(line.substr(3), is_there);
      } else {
        oracle_.note(line);
      }
    }
    EXPECT_EQ(oracle_.compared(), oracle_.known());
    std::printf("%d changes acknowledged, %zu actors looked for\n", oracle_.acknowledged(), oracle_.compared());
  }
  std::string stop_file() const { return folder() / "stop"; }

  Oracle oracle_;
};

/// The head, the nodes and the program each run in a network of their own.
class ApartTest : public HeadDeathsTest {
 protected:
  void SetUp() override {
    HeadDeathsTest::SetUp();
    if (!Network::can_be_made()) GTEST_SKIP() << "network namespaces cannot be made here";
    network_.emplace(kProgram);
  }
  void TearDown() override {
    for (auto& node : nodes_) end(node);
    nodes_.clear();
    end(head_);
    network_.reset();
    HeadDeathsTest::TearDown();
  }
  std::string listens_at() const override { return Network::address_of(kHead) + ":7400"; }
  std::unique_ptr<ChildProgram> start(const std::vector<std::string>& arguments, const std::string& resources,
                                      Variables more) const override {
    const bool is_head = std::find(arguments.begin(), arguments.end(), "--head") != arguments.end();
    const int place = is_head ? kHead : kFirstNode + static_cast<int>(nodes_.size());
    more.emplace_back("PHAROS_RESOURCES", resources);
    return network_->start(place, PHAROS_EXECUTABLE, arguments, more);
  }
  std::unique_ptr<ChildProgram> start_program(const std::string& path, std::vector<std::string> arguments,
                                              Variables more) const override {
    more.emplace_back("PHAROS_ADDRESS", address_);
    more.emplace_back("PHAROS_TOKEN_FILE", token_file());
    return network_->start(kProgram, path, std::move(arguments), more);
  }

  static constexpr int kHead = 1;
  static constexpr int kFirstNode = 2;  // of two nodes
  static constexpr int kProgram = 4;
  std::optional<Network> network_;
};

TEST_F(ApartTest, WhateverIsKilledUnderTwoHundredChangesASecondNoneThatWasAcknowledgedIsLost) {
  const int rounds = rounds_wanted();
  must_end_within(80s + rounds * 12s);
  std::mt19937_64 random{seed_of_test()};
  start_durable_head();
  for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
  const auto program = start_program(CHANGING, {stop_file(), "8"}, {});
  ASSERT_EQ(program->next_line(), "begins");
  wait_for_full_load(*program);
  const int before = oracle_.acknowledged();
  const auto pause = [&] { return std::chrono::milliseconds{200 + random() % 600}; };
  for (int round = 0; round < rounds; ++round) {
    listen_for(*program, pause());
    kill_head();
    if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{random() % 1500});  // away
    start_durable_head();
    listen_for(*program, pause());
    EXPECT_TRUE(eventually([&] {
      const auto workers = census().processes(Part::kWorker);
      return !workers.empty() && ::kill(workers[random() % workers.size()].pid, SIGKILL) == 0;
    }));
    listen_for(*program, pause());
    auto& node = nodes_[random() % nodes_.size()];
    EXPECT_EQ(::kill(daemon_of(*node), SIGKILL), 0);
    node->wait();
    std::swap(node, nodes_.back());
    nodes_.pop_back();
    start_node("cpu=1,seat=40");
  }
  listen_for(*program, pause());
  finish(*program);
  // A round listens for two seconds or less, and deaths take a part of that.
  EXPECT_GT(oracle_.acknowledged() - before, rounds * (kIsSanitized ? 50 : 150));
}

// ---- Deaths at the worst moments

TEST_F(HeadDeathsTest, AtEachFailpointOfItsRecordsTheHeadDiesAndNothingIsLost) {
  must_end_within(240s);
  std::mt19937_64 random{seed_of_test()};
  start_durable_head();
  for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
  const auto program = start_program(CHANGING, {stop_file(), "8"});
  ASSERT_EQ(program->next_line(), "begins");
  const auto first = static_cast<int>(Failpoint::kRecordsOpened);
  const auto last = static_cast<int>(Failpoint::kRecordsSaid);
  for (int each = first; each <= last; ++each) {
    const auto at = static_cast<Failpoint>(each);
    for (int round = 0; round < 3; ++round) {
      listen_for(*program, 100ms);
      kill_head();
      // A head passes the failpoints before kRecordsReady only once, at its start.
      const auto passes = at < Failpoint::kRecordsReady ? 0 : random() % 200;
      const std::string order = std::string{name_of(at)} + ":kill:" + std::to_string(passes);
      start_durable_head({{"PHAROS_FAILPOINT", order}}, false);
      while (!head_->ended()) {
        if (const auto line = program->line_within(50ms)) oracle_.note(*line);
      }
      start_durable_head();
    }
  }
  finish(*program);
}

class PowerLossTest : public HeadDeathsTest {
 protected:
  /// Kills the head again and again as a power failure would: writes that are not synced are lost.
  void lose_power(int rounds, Variables variables) {
    variables.emplace_back("LD_PRELOAD", POWER_LOSS);
    variables.emplace_back("POWER_LOSS_FOLDER", state());
    variables.emplace_back("ASAN_OPTIONS", "verify_asan_link_order=0");
    std::mt19937_64 random{seed_of_test()};
    start_durable_head(variables);
    for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
    program_ = start_program(CHANGING, {stop_file(), "8"});
    ASSERT_EQ(program_->next_line(), "begins");
    for (int round = 0; round < rounds; ++round) {
      listen_for(*program_, std::chrono::milliseconds{200 + random() % 400});
      kill_head();
      start_durable_head(variables);
    }
    listen_for(*program_, 200ms);
    look(*program_);
  }
  void TearDown() override {
    program_.reset();
    HeadDeathsTest::TearDown();
  }

  std::unique_ptr<ChildProgram> program_;
};

TEST_F(PowerLossTest, WhatWasNotSyncedWasNotAcknowledged) {
  must_end_within(180s);
  lose_power(rounds_wanted(), {});
  EXPECT_EQ(oracle_.wrong(), "");
}

// Proves that the test above can fail. Either an actor that was acknowledged is not there, or the program's own node
// was acknowledged and is unknown to the next head.
TEST_F(PowerLossTest, ADiskThatOnlySaysThatItHasSyncedIsFoundOut) {
  must_end_within(240s);
  std::string end;
  try {
    lose_power(5, {{"POWER_LOSS_LIES", "1"}});
  } catch (const std::runtime_error& e) {
    end = e.what();  // the program has ended, because its own node has: the head has lost even the record of that
  }
  const bool lost = oracle_.wrong().find(" was acknowledged") != std::string::npos;
  const bool forgotten = program_->error().find("the cluster has given this node up") != std::string::npos;
  EXPECT_TRUE(lost || forgotten) << oracle_.wrong() << end << program_->error();
}

// ---- Processes that stop for a while, and a disk that is full

class PausesTest : public HeadDeathsTest {
 protected:
  std::unique_ptr<ChildProgram> begin() {
    auto program = start_program(CHANGING, {stop_file(), "4"});
    EXPECT_EQ(program->next_line(), "begins");
    return program;
  }
};

TEST_F(PausesTest, AHeadThatWasStoppedForLongerThanNodesMayBeSilentLosesNone) {
  must_end_within(120s);
  start_durable_head();
  for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
  const auto program = begin();
  listen_for(*program, 500ms);
  const pid_t head = daemon_of(*head_);
  ::kill(head, SIGSTOP);
  std::this_thread::sleep_for(20s);  // twice the time after which a silent node is given up
  ::kill(head, SIGCONT);
  listen_for(*program, 500ms);
  finish(*program);
  for (const auto& node : nodes_) EXPECT_EQ(node->error().find("given this node up"), std::string::npos);
  EXPECT_EQ(head_->error().find("a node has sent nothing for too long"), std::string::npos);
}

TEST_F(PausesTest, ANodeThatWasStoppedIsGivenUpInTenSecondsAndJoinsAnewWhenItGoesOn) {
  must_end_within(120s);
  start_durable_head();
  ChildProgram& node = start_node("cpu=1,seat=40");
  start_node("cpu=1,seat=40");
  const auto program = begin();
  listen_for(*program, 500ms);
  const pid_t daemon = daemon_of(node);
  ::kill(daemon, SIGSTOP);
  const auto since = std::chrono::steady_clock::now();
  EXPECT_TRUE(head_->error_with("a node has sent nothing for too long", 15s));
  EXPECT_LT(std::chrono::steady_clock::now() - since, 11s);
  ::kill(daemon, SIGCONT);
  EXPECT_TRUE(node.error_with("the cluster has given this node up"));
  read_until(node, "joined the head at " + address_);
  listen_for(*program, 500ms);
  finish(*program);
}

TEST_F(PausesTest, AHeadThatCannotWriteOnceStartsAgainInItsPlace) {
  must_end_within(120s);
  start_durable_head({{"PHAROS_FAILPOINT", "records_ready:fail_once:100"}});
  for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
  const auto program = begin();
  while (!head_->error_with("the head goes on", 10ms)) listen_for(*program, 50ms);
  listen_for(*program, 500ms);
  finish(*program);
}

TEST_F(PausesTest, ASecondHeadOnTheSameStateIsRefused) {
  start_durable_head();
  EXPECT_EQ(fs::status(state()).permissions() & fs::perms::mask, fs::perms::owner_all);
  const auto second = start({"start", "--head", "--block", "--listen", "127.0.0.1:0", "--state", state()}, "cpu=1");
  const auto end = second->wait(5s);
  EXPECT_EQ(end.status >> 8, 1);
  EXPECT_NE(end.error.find(state()), std::string::npos) << end.error;
  EXPECT_NE(end.error.find("is open already"), std::string::npos) << end.error;
}

/// The head's records are on a small file system of their own, which only root can mount.
class FullDiskTest : public PausesTest {
 protected:
  void SetUp() override {
    PausesTest::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a file system";
    fs::create_directory(state());
    ASSERT_EQ(::mount("none", state().c_str(), "tmpfs", 0, "size=32m"), 0) << ::strerror(errno);
    mounted_ = true;
  }
  void TearDown() override {
    end(head_);
    if (mounted_) {
      EXPECT_EQ(::umount2(state().c_str(), MNT_DETACH), 0);
    }
    PausesTest::TearDown();
  }
  std::string filling() const { return state() + "/filling"; }
  /// Fills the file system to the last byte.
  void fill() const {
    std::ofstream file{filling(), std::ios::binary};
    const std::string some(1 << 16, 'x');
    while (file.write(some.data(), static_cast<std::streamsize>(some.size())) && file.flush()) {
    }
  }

 private:
  bool mounted_ = false;
};

TEST_F(FullDiskTest, NewActorsAreRefusedWithTheReasonAndAllElseGoesOnUntilThereIsRoom) {
  must_end_within(120s);
  start_durable_head();
  start_node("cpu=1,b=4");
  const auto driver =
      start_program(FAR_DRIVER, {"full_disk", folder() / "full", folder() / "room", folder() / "restarted"});
  read_until(*driver, "before: 5");
  fill();
  EXPECT_LT(fs::space(state()).available, 1 << 20);
  std::ofstream{folder() / "full"} << "yes";
  EXPECT_NE(read_until(*driver, "refused: ").find("the disk of the head's state has "), std::string::npos);
  read_until(*driver, "calls go on: 6");
  read_until(*driver, "killed while full");
  fs::remove(filling());
  std::ofstream{folder() / "room"} << "yes";
  read_until(*driver, "after: 7");
  kill_head();
  start_durable_head();
  std::ofstream{folder() / "restarted"} << "yes";
  read_until(*driver, "still there: 8");
  EXPECT_EQ(driver->wait().status, 0);
}

}  // namespace
}  // namespace pharos::cluster::head_deaths
