#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <random>
#include <string>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "seed.hpp"

namespace pharos::cluster::random_deaths {
namespace {

using namespace std::chrono_literals;

enum class Role { kDriver, kKeeper, kNode, kZygote, kWorker };

// Returns whether the driver says that a process was killed before the cluster was ready.
bool says_not_ready(const std::string& line) {
  return line.starts_with("unexpected: starting Pharos") || line.starts_with("not ready: ");
}

constexpr const char* kNames[] = {"driver", "keeper", "node", "zygote", "worker"};

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
    if (role == Role::kDriver) {
      program.kill(SIGKILL);
    } else if (const pid_t victim = find(role); victim != 0) {
      ::kill(victim, SIGKILL);
    }
    const bool goes_on = role == Role::kZygote || role == Role::kWorker;
    bool started = true;
    for (int rounds = 0; goes_on && started && rounds < 3;) {
      const std::string line = program.next_line();
      rounds += line == "round" ? 1 : 0;
      started = !says_not_ready(line);
      ASSERT_EQ(line.find("DeadlineExceeded"), std::string::npos) << line;
      ASSERT_TRUE(!started || line.find("unexpected") == std::string::npos) << line;
    }
    if (role != Role::kDriver) program.kill(SIGTERM);
    const auto end = program.wait();
    if (role == Role::kDriver) {
      EXPECT_TRUE(WIFSIGNALED(end.status));
    } else {
      // The program may have ended before the kill, or by SIGTERM before it had set its handler. The kill may also have
      // come before the cluster was complete.
      const int status = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1;
      const bool untaken = WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGTERM && end.output.empty();
      const bool stopped = !goes_on && status == 10;
      const bool in_order = status == 0 || !started || stopped || untaken || says_not_ready(end.output);
      EXPECT_TRUE(in_order) << "status " << end.status << ": " << end.output << end.error;
    }
    census().expect_nothing_left();
  }

  std::mt19937_64 random_;
};

TEST_F(RandomDeathsTest, WhoeverIsKilledWheneverLeavesNothingAndTheDriverIsTold) {
  const std::uint64_t seed = seed_of_test();
  const int rounds = rounds_of_test(20);
  random_.seed(seed);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    must_end_within(60s);
    const auto role = static_cast<Role>(random_() % std::size(kNames));
    const std::chrono::microseconds moment{random_() % 150'000};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ": the " +
                 kNames[static_cast<std::size_t>(role)] + " after " + std::to_string(moment.count()) + " us");
    play(role, moment);
  }
}

}  // namespace
}  // namespace pharos::cluster::random_deaths
