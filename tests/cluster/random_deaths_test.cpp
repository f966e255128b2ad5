#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "promised.hpp"
#include "seed.hpp"

namespace pharos::cluster::random_deaths {
namespace {

using namespace std::chrono_literals;

enum class Role { kDriver, kKeeper, kNode, kZygote, kWorker };
constexpr const char* kNames[] = {"driver", "keeper", "node", "zygote", "worker"};

// Returns whether the driver says that a process died before the cluster was ready.
bool says_not_ready(const std::string& line) {
  return line.starts_with("unexpected: starting Pharos") || line.starts_with("not ready: ");
}
bool says_stopped(const std::string& line) {
  return line.starts_with("RuntimeStopped: ");
}
bool says_of_death(const std::string& line) {
  return line.starts_with("ActorDied: ") || line.starts_with("WorkerDied: ");
}
int exit_status(const ChildProgram::End& end) {
  return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1;
}

/// Kills one process of a program under load at a random moment, which may be during the start. PHAROS_TEST_SEED
/// repeats a run, and PHAROS_TEST_ROUNDS makes it longer.
class RandomDeathsTest : public ClusterTest {
 protected:
  // Returns 0 if no process has this role, because the moment was before its start.
  pid_t find(Role role) {
    constexpr Part kParts[] = {Part::kOther, Part::kKeeper, Part::kNode, Part::kZygote, Part::kWorker};
    const auto found = census().processes(kParts[static_cast<std::size_t>(role)]);
    return found.empty() ? 0 : found[random_() % found.size()].pid;
  }

  void play(Role role, std::chrono::microseconds moment) {
    ChildProgram program{CLUSTER_DRIVER, {"load"}};
    const auto at = std::chrono::steady_clock::now() + moment;
    std::this_thread::sleep_until(at);  // the instant is the test's parameter
    bool ready = false;                 // certainly before the kill
    while (const auto line = program.line_within(1ms)) ready |= *line == "ready";
    const pid_t victim = role == Role::kDriver ? program.pid() : find(role);
    if (victim != 0) ::kill(victim, SIGKILL);
    killed_ += victim != 0 ? 1 : 0;
    killed_ready_ += victim != 0 && ready ? 1 : 0;
    if (role == Role::kDriver) {
      const auto end = program.wait();
      EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.status << end.output << end.error;
    } else if (victim == 0) {
      expect_goes_on(program, true, false);
    } else if (role == Role::kKeeper || role == Role::kNode) {
      expect_is_told(program, ready);
    } else {
      expect_goes_on(program, ready, role == Role::kWorker);
    }
    census().expect_nothing_left();
  }

  // Without its node no program goes on. Nobody tells this one to end.
  static void expect_is_told(ChildProgram& program, bool ready) {
    std::string line = program.next_line();
    while (line == "ready" || line == "round" || says_of_death(line)) line = program.next_line();
    EXPECT_TRUE(says_stopped(line) || (!ready && says_not_ready(line))) << line;
    const auto end = program.wait();
    const int status = exit_status(end);
    EXPECT_TRUE(status == 10 || (!ready && (status == 11 || status == 13)))
        << "status " << end.status << " after " << line << end.output << end.error;
  }
  // A program that was ready goes on without a zygote or a worker. One that was not may say that it could not start.
  void expect_goes_on(ChildProgram& program, bool ready, bool lost_a_worker) {
    bool told = false;
    for (int rounds = 0; rounds < 3;) {
      const std::string line = program.next_line();
      rounds += line == "round" ? 1 : 0;
      told |= says_of_death(line);
      // A zygote that dies takes the worker along that it is making, and no other one.
      if (!lost_a_worker && says_of_death(line)) {
        EXPECT_SAYS(line, "a worker ended before it was ready");
      }
      if (!ready && says_not_ready(line)) {
        const auto end = program.wait();
        const int expected = line.starts_with("not ready: ") ? 13 : 11;
        EXPECT_EQ(exit_status(end), expected) << line << end.output << end.error;
        return;
      }
      ASSERT_TRUE(line == "round" || line == "ready" || says_of_death(line)) << line;
    }
    lost_workers_ += lost_a_worker ? 1 : 0;
    told_of_workers_ += lost_a_worker && told ? 1 : 0;
    program.kill(SIGTERM);
    const auto end = program.wait();
    EXPECT_EQ(exit_status(end), 0) << "status " << end.status << ": " << end.output << end.error;
  }

  std::mt19937_64 random_;
  int killed_ = 0;
  int killed_ready_ = 0;  // kills in clusters that were ready
  int lost_workers_ = 0;
  int told_of_workers_ = 0;
};

TEST_F(RandomDeathsTest, WhoeverIsKilledWheneverLeavesNothingAndTheDriverIsTold) {
  const std::uint64_t seed = seed_of_test();
  const int rounds = rounds_of_test(20);
  random_.seed(seed);
  // Half of the moments are in a cluster that is ready, on a slow machine and in a slow build, too.
  const std::chrono::microseconds start = time_until_ready(CLUSTER_DRIVER, {"load"});
  census().expect_nothing_left();
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    must_end_within(60s);
    const auto role = static_cast<Role>(random_() % std::size(kNames));
    const std::chrono::microseconds moment{random_() % static_cast<std::uint64_t>(2 * start.count())};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ": the " +
                 kNames[static_cast<std::size_t>(role)] + " after " + std::to_string(moment.count()) + " us");
    play(role, moment);
  }
  std::printf("%d kills, %d of them in a cluster that was ready; %d workers killed, and the driver was told of %d\n",
              killed_, killed_ready_, lost_workers_, told_of_workers_);
  EXPECT_GT(killed_, rounds / 2);
  if (!kIsSanitized) {
    EXPECT_GT(killed_ready_, rounds / 8) << "the moments are too early for this machine";
  }
  // The driver is not told of a worker that runs nothing, so some rounds may be silent; all of eight may not.
  if (lost_workers_ >= 8) {
    EXPECT_GT(told_of_workers_, 0);
  }
}

}  // namespace
}  // namespace pharos::cluster::random_deaths
