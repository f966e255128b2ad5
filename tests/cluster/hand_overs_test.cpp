// Many connections at once between callers and workers of one node. The design is in
// docs/decisions/0002-the-node-hands-out-sockets.md.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::hand_overs {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Target {
 public:
  int one() { return 1; }
  int process() { return ::getpid(); }
};

class Caller {
 public:
  /// Calls each target and returns how many answered.
  int call_all(const std::vector<Actor<Target>>& targets) {
    std::vector<Ref<int>> answers;
    for (const auto& target : targets) answers.push_back(target.call<&Target::one>());
    int sum = 0;
    for (const auto& answer : answers) sum += answer.get(Deadline::in(30s));
    return sum;
  }
  std::string call(const Actor<Target>& target) {
    try {
      return std::to_string(target.call<&Target::one>().get(Deadline::in(30s)));
    } catch (const ActorDied&) {
      return "died";
    }
  }
};

class HandOversTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    must_end_within(90s);
    runtime_.emplace();
  }
  void TearDown() override {
    answers_.clear();
    callers_.clear();
    target_.reset();
    runtime_.reset();
    ClusterTest::TearDown();
  }
  template <class T>
  std::vector<Actor<T>> spawn(int count) {
    std::vector<Actor<T>> actors;
    for (int i = 0; i < count; ++i) actors.push_back(runtime_->spawn<T>());
    return actors;
  }
  /// The number of descriptors that were sent to the process and that it has not received yet.
  static int on_their_way_to(int process) {
    int sum = 0;
    for (const auto& entry : fs::directory_iterator{"/proc/" + std::to_string(process) + "/fdinfo"}) {
      std::ifstream file{entry.path()};
      std::string name;
      for (int count = 0; file >> name;) {
        if (name == "scm_fds:" && file >> count) sum += count;
      }
    }
    return sum;
  }
  /// Returns whether all threads of the process are stopped.
  static bool is_stopped(int process) {
    const fs::directory_iterator threads{"/proc/" + std::to_string(process) + "/task"};
    return std::all_of(begin(threads), end(threads), [](const fs::directory_entry& thread) {
      std::ifstream file{thread.path() / "stat"};
      std::string stat{std::istreambuf_iterator<char>{file}, {}};
      return stat.substr(stat.rfind(')') + 2, 1) == "T";
    });
  }
  /// Stops a target and lets forty callers call it; `answers_` are their results. Returns the target's process id.
  int stop_and_call() {
    target_.emplace(runtime_->spawn<Target>());
    const int process = target_->call<&Target::process>().get(Deadline::in(20s));
    callers_ = spawn<Caller>(40);
    const auto other = runtime_->spawn<Target>();
    for (const auto& caller : callers_) {
      EXPECT_EQ(caller.call<&Caller::call_all>(std::vector{other}).get(Deadline::in(20s)), 1);
    }
    ::kill(process, SIGSTOP);
    EXPECT_TRUE(eventually([&] { return is_stopped(process); }));
    for (const auto& caller : callers_) answers_.push_back(caller.call<&Caller::call>(*target_));
    EXPECT_TRUE(eventually([&] { return on_their_way_to(process) == 16; })) << on_their_way_to(process);
    return process;
  }

  std::optional<Runtime> runtime_;
  std::optional<Actor<Target>> target_;
  std::vector<Actor<Caller>> callers_;
  std::vector<Ref<std::string>> answers_;
};

TEST_F(HandOversTest, AThousandAtOnceAreAllMade) {
  const auto targets = spawn<Target>(40);
  const auto callers = spawn<Caller>(25);
  std::vector<Ref<int>> sums;
  for (const auto& caller : callers) sums.push_back(caller.call<&Caller::call_all>(targets));
  for (const auto& sum : sums) EXPECT_EQ(sum.get(Deadline::in(60s)), 40);
}

TEST_F(HandOversTest, AStoppedWorkerHasAFewOnTheirWayHoldsNobodyElseUpAndServesAllWhenItGoesOn) {
  const int process = stop_and_call();
  const auto others = spawn<Target>(40);
  const auto more = spawn<Caller>(25);
  std::vector<Ref<int>> sums;
  for (const auto& caller : more) sums.push_back(caller.call<&Caller::call_all>(others));
  for (const auto& sum : sums) EXPECT_EQ(sum.get(Deadline::in(60s)), 40);
  EXPECT_EQ(on_their_way_to(process), 16);
  ::kill(process, SIGCONT);
  for (const auto& answer : answers_) EXPECT_EQ(answer.get(Deadline::in(20s)), "1");
}

TEST_F(HandOversTest, AWorkerThatDiesInTheMidstLeavesTheLineToOthers) {
  ::kill(stop_and_call(), SIGKILL);
  for (const auto& answer : answers_) EXPECT_EQ(answer.get(Deadline::in(20s)), "died");
  const auto another = runtime_->spawn<Target>();
  for (const auto& caller : callers_) {
    EXPECT_EQ(caller.call<&Caller::call>(another).get(Deadline::in(20s)), "1");
  }
}

}  // namespace
}  // namespace pharos::cluster::hand_overs
