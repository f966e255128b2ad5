// Processes that use the object store are killed: at each failpoint of the store that
// runtime/base/include/pharos/base/failpoint.hpp lists, in each role that reaches it, and at random moments. The
// processes that are left go on, and nothing is left behind. One test runs the same load for a long time without kills.

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/failpoint.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::store_deaths {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool is_nodes(Failpoint at) {
  return at >= Failpoint::kStoreOpened && at < Failpoint::kObjectClaimed;
}
/// Returns whether this failpoint is reached only when objects are spilled to disk.
bool spills(Failpoint at) {
  return at == Failpoint::kObjectAskedFor || at >= Failpoint::kObjectSpilled;
}

class FailpointsTest : public ClusterTest, public testing::WithParamInterface<Failpoint> {
 protected:
  std::string order(const char* action, int passes) const {
    return std::string{name_of(GetParam())} + ":" + action + ":" + std::to_string(passes);
  }
  std::string folder() const { return spills(GetParam()) ? folder_.path().string() : "none"; }
  std::string seed() const { return std::to_string(seed_); }

  static void expect_clean_end(ChildProgram& program) {
    program.kill(SIGTERM);
    const auto end = program.wait(30s);
    EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) << end.status << end.output << end.error;
    EXPECT_SAYS(end.output, "clean");
  }

  TemporaryFolder folder_;
  const std::uint64_t seed_ = seed_of_test();
};

class WorkersFailpointsTest : public FailpointsTest {};
class DriversFailpointsTest : public FailpointsTest {};
class NodesFailpointsTest : public FailpointsTest {};
class StepsFailpointsTest : public FailpointsTest {};

TEST_P(WorkersFailpointsTest, AnActorThatIsKilledThereTakesNothingAlongButItself) {
  must_end_within(120s);
  for (const int passes : {0, 5}) {
    ChildProgram program{STORE_DRIVER, {folder(), seed(), "worker", order("kill", passes)}};
    bool died = false;
    for (int rounds = 0; rounds < 400 && !died;) {
      const std::string line = program.next_line();
      ASSERT_EQ(line.find("unexpected"), std::string::npos) << line;
      died = line == "died";
      rounds += line == "round" ? 1 : 0;
    }
    EXPECT_TRUE(died) << "no actor came to " << name_of(GetParam());
    for (int rounds = 0; rounds < 3;) {
      const std::string line = program.next_line();
      ASSERT_EQ(line.find("unexpected"), std::string::npos) << line;
      rounds += line == "round" ? 1 : 0;
    }
    expect_clean_end(program);
    census().expect_nothing_left();
  }
}

TEST_P(DriversFailpointsTest, AProgramThatIsKilledThereLeavesNothing) {
  must_end_within(120s);
  for (const int passes : {0, 5}) {
    ChildProgram program{STORE_DRIVER, {folder(), seed(), "driver", order("kill", passes)}};
    const auto end = program.wait(60s);
    EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.status << end.output << end.error;
    census().expect_nothing_left();
  }
}

TEST_P(NodesFailpointsTest, ANodeThatIsKilledThereIsToldOfAndLeavesNothing) {
  must_end_within(120s);
  // This failpoint is reached only after a process of the cluster has died, so an actor is killed too.
  const bool needs_death = GetParam() == Failpoint::kProcessGone;
  for (const int passes : {0, 2}) {
    if (needs_death && passes != 0) continue;
    ChildProgram program{STORE_DRIVER,
                         {folder(), seed(), needs_death ? "worker" : "nobody", needs_death ? "slot_begun:kill:0" : ""},
                         {{"PHAROS_FAILPOINT", order("kill", passes)}}};
    const auto end = program.wait(60s);
    EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 10) << end.status << end.output << end.error;
    EXPECT_SAYS(end.output, "RuntimeStopped");
    census().expect_nothing_left();
  }
}

TEST_P(StepsFailpointsTest, AStepThatFailsThereIsTypedAndTheProgramGoesOn) {
  must_end_within(120s);
  const Failpoint at = GetParam();
  const bool nodes = is_nodes(at);
  // The order "fail" with 3 passes makes the step fail each time after the third.
  ChildProgram program{
      STORE_DRIVER,
      {folder(), seed(), nodes ? "nobody" : "driver", order("fail", 3)},
      nodes ? ChildProgram::Variables{{"PHAROS_FAILPOINT", order("fail", 3)}} : ChildProgram::Variables{}};
  bool failed = false;
  for (int rounds = 0; rounds < 400 && !failed;) {
    const std::string line = program.next_line();
    ASSERT_EQ(line.find("unexpected"), std::string::npos) << line;
    failed = line.starts_with("Exhausted: ") || line.starts_with("ObjectLost: ");
    rounds += line == "round" ? 1 : 0;
  }
  EXPECT_TRUE(failed);
  program.kill(SIGTERM);
  const auto end = program.wait(30s);
  // If slots never get memory, the program cannot allocate the whole store at its end, and ends with status 11.
  const bool no_memory = at == Failpoint::kSlotProvided && WEXITSTATUS(end.status) == 11;
  EXPECT_TRUE(WIFEXITED(end.status) && (WEXITSTATUS(end.status) == 0 || no_memory)) << end.output << end.error;
  census().expect_nothing_left();
}

// Selects from the complete list of failpoints. A new failpoint of the store belongs to one of the groups below, or to
// far_objects_test.cpp if it concerns two nodes.
std::vector<Failpoint> those(bool (*wanted)(Failpoint)) {
  std::vector<Failpoint> all;
  for (int at = 0; at < static_cast<int>(Failpoint::kEnd); ++at) {
    if (wanted(static_cast<Failpoint>(at))) all.push_back(static_cast<Failpoint>(at));
  }
  return all;
}
std::string name_of_test(const testing::TestParamInfo<Failpoint>& test) {
  return std::string{name_of(test.param)};
}
bool is_workers(Failpoint at) {
  return at < Failpoint::kStoreOpened;
}
// Workers make the results, so a driver never reaches kResultSent.
bool is_drivers(Failpoint at) {
  return is_workers(at) && at != Failpoint::kResultSent;
}
bool can_fail(Failpoint at) {
  return at == Failpoint::kSlotProvided || at == Failpoint::kObjectSpilled || at == Failpoint::kObjectReturns;
}
INSTANTIATE_TEST_SUITE_P(At, WorkersFailpointsTest, testing::ValuesIn(those(is_workers)), name_of_test);
INSTANTIATE_TEST_SUITE_P(At, DriversFailpointsTest, testing::ValuesIn(those(is_drivers)), name_of_test);
INSTANTIATE_TEST_SUITE_P(At, NodesFailpointsTest, testing::ValuesIn(those(is_nodes)), name_of_test);
INSTANTIATE_TEST_SUITE_P(At, StepsFailpointsTest, testing::ValuesIn(those(can_fail)), name_of_test);

/// Kills processes at random moments. PHAROS_TEST_SEED repeats a run, and PHAROS_TEST_ROUNDS makes it longer.
class StoreDeathsTest : public ClusterTest {
 protected:
  TemporaryFolder folder_;
};

TEST_F(StoreDeathsTest, WhoeverIsKilledWheneverWhatIsLeftIsRightAndNothingIsLeaked) {
  const std::uint64_t seed = seed_of_test();
  const int rounds = rounds_of_test(200);
  std::mt19937_64 random{seed};
  for (int done = 0; done < rounds && !HasFailure();) {
    must_end_within(120s);
    ChildProgram program{STORE_DRIVER, {folder_.path().string(), std::to_string(random()), "nobody"}};
    ASSERT_EQ(program.next_line(), "round");
    // Kills some workers, one after the other. Then either ends the program, or kills the node or the program, without
    // which nothing goes on.
    const auto kill_one = [&](Part part) {
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 60'000});  // the instant is the test's parameter
      const auto found = census().processes(part);
      if (!found.empty()) ::kill(found[random() % found.size()].pid, SIGKILL);
      ++done;
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + ", after " + std::to_string(done) + " kills");
    for (std::uint64_t kills = 4 + random() % 8; kills != 0; --kills) {
      kill_one(Part::kWorker);
      const std::string line = program.next_line();
      ASSERT_EQ(line.find("unexpected"), std::string::npos) << line;
    }
    if (random() % 2 == 0) {
      program.kill(SIGTERM);
      const auto end = program.wait(30s);
      EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) << end.status << end.output << end.error;
      EXPECT_SAYS(end.output, "clean");
    } else {
      if (random() % 2 == 0) {
        kill_one(Part::kNode);
      } else {
        program.kill(SIGKILL);
        ++done;
      }
      static_cast<void>(program.wait(30s));
    }
    census().expect_nothing_left();
  }
}

TEST_F(StoreDeathsTest, TheSameSeedIsTheSameLoad) {
  must_end_within(60s);
  const auto load = [this](const std::string& seed) {
    ChildProgram program{STORE_DRIVER, {folder_.path().string(), seed, "counted"}};
    std::vector<std::string> lines;
    for (int round = 0; round < 10; ++round) lines.push_back(program.next_line());
    program.kill(SIGTERM);
    EXPECT_EQ(program.wait(30s).status, 0);
    return lines;
  };
  const auto first = load("1");
  EXPECT_TRUE(first.front().starts_with("round ")) << first.front();
  EXPECT_EQ(load("1"), first);
  EXPECT_NE(load("2"), first);
}

// ---- A long time

/// Runs for PHAROS_SOAK_SECONDS seconds, 8 by default.
class SoakTest : public ClusterTest {
 protected:
  struct Use {
    std::string name;
    std::size_t private_kib;
    std::size_t descriptors;
  };
  std::map<pid_t, Use> use() const {
    std::map<pid_t, Use> all;
    for (const FoundProcess& process : census().processes()) {
      const auto folder = std::filesystem::path{"/proc"} / std::to_string(process.pid);
      Use its{process.name, 0, 0};
      std::ifstream status{folder / "status"};
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("RssAnon:")) its.private_kib = std::stoul(line.substr(8));
      }
      std::error_code gone;
      for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator{folder / "fd", gone}) {
        ++its.descriptors;
      }
      all.emplace(process.pid, std::move(its));
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(SoakTest, AStoreThatIsAlwaysFullTakesNoMoreMemoryAsTimePasses) {
  const char* const given = ::getenv("PHAROS_SOAK_SECONDS");
  const std::chrono::seconds time{given == nullptr ? 8 : std::stoi(given)};
  must_end_within(time + 60s);
  ChildProgram program{STORE_DRIVER, {folder_.path().string(), std::to_string(seed_of_test()), "nobody"}};
  const auto start = std::chrono::steady_clock::now();
  std::map<pid_t, Use> before;
  std::size_t rounds = 0;
  while (std::chrono::steady_clock::now() < start + time) {
    ASSERT_EQ(program.next_line(), "round");
    ++rounds;
    // After a quarter of the time each process has reached the memory use that it needs.
    if (before.empty() && std::chrono::steady_clock::now() > start + time / 4) before = use();
  }
  const auto after = use();
  std::size_t compared = 0;
  for (const auto& [pid, its] : after) {
    const auto earlier = before.find(pid);
    if (earlier == before.end()) continue;  // a task worker that was started after the first measurement
    ++compared;
    const Use& was = earlier->second;
    if (kSanitized) continue;  // a sanitizer keeps freed memory, and its own data grows with the addresses used
    EXPECT_LT(its.private_kib, was.private_kib + was.private_kib / 5 + 8 * 1024) << its.name << " grows";
    EXPECT_LE(its.descriptors, was.descriptors + 4) << its.name << " opens more and more";
  }
  EXPECT_GE(compared, 5U) << "driver, keeper, node, zygote and actors";
  std::printf("%zu rounds\n", rounds);
  program.kill(SIGTERM);
  const auto end = program.wait(30s);
  EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) << end.status << end.output << end.error;
  EXPECT_SAYS(end.output, "clean");
}

}  // namespace
}  // namespace pharos::cluster::store_deaths
