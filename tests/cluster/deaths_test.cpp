#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "on_terminal.hpp"

namespace pharos::cluster::deaths {
namespace {

using namespace std::chrono_literals;

int twice(int value) {
  return 2 * value;
}
int process() {
  return ::getpid();
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }
  int process() const { return ::getpid(); }
  int stay(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{ms});
    return ms;
  }

 private:
  int value_ = 0;
};

Deadline soon() {
  return Deadline::in(10s);
}

/// Makes calls and submits tasks from two threads until end() is called. Counts the failures by kind.
class Load {
 public:
  Load(Runtime& runtime, const Actor<Counter>& actor) {
    threads_.emplace_back([this, &actor] { run([&] { return actor.call<&Counter::add>(1); }); });
    threads_.emplace_back([this, &runtime] { run([&] { return runtime.submit<&twice>(1); }); });
  }
  Load(Load&&) = delete;
  ~Load() {
    if (!ended_) end();
  }

  void end() {
    ended_ = true;
    for (auto& thread : threads_) thread.join();
  }
  bool running() const { return rounds_ > 4; }
  int failed(ErrorCode code) const { return failed_[static_cast<std::size_t>(code)]; }
  int failed_otherwise(ErrorCode code) const {
    int count = 0;
    for (std::size_t i = 0; i < std::size(failed_); ++i)
      count += i == static_cast<std::size_t>(code) ? 0 : failed_[i].load();
    return count;
  }

 private:
  template <class Call>
  void run(const Call& call) {
    while (!ended_) {
      std::vector<Ref<int>> results;
      for (int i = 0; i < 500; ++i) results.push_back(call());
      for (const auto& result : results) {
        if (const auto outcome = result.try_get(soon()); !outcome)
          ++failed_[static_cast<std::size_t>(outcome.error().code())];
      }
      ++rounds_;
    }
  }

  std::atomic<bool> ended_ = false;
  std::atomic<int> rounds_ = 0;
  std::atomic<int> failed_[32] = {};
  std::vector<std::thread> threads_;
};

class DeathsTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    runtime_.emplace();
    actor_.emplace(runtime_->spawn<Counter>());
    EXPECT_EQ(actor_->call<&Counter::add>(1).get(), 1);
    EXPECT_EQ(runtime_->submit<&twice>(1).get(), 2);
  }
  void TearDown() override {
    actor_.reset();
    EXPECT_LT(time_of([this] { runtime_.reset(); }), 2s);
    ClusterTest::TearDown();
  }

  pid_t only(Part part) const {
    const auto found = census().wait_for(part, 1);
    return found.empty() ? 0 : found.front().pid;
  }

  // Ignores the zombie of the keeper, which this process reaps only when the Runtime ends.
  void expect_cluster_gone() const {
    std::string left;
    EXPECT_TRUE(eventually([&] {
      left.clear();
      for (const auto& process : census().processes()) {
        if (process.state != 'Z' || process.parent != ::getpid()) left += process.to_string() + "\n";
      }
      return left.empty();
    })) << left;
  }

  void expect_stopped() {
    message_of<RuntimeStopped>([&] { actor_->call<&Counter::add>(1).get(soon()); });
    message_of<RuntimeStopped>([&] { runtime_->submit<&twice>(1).get(soon()); });
    message_of<RuntimeStopped>([&] { runtime_->spawn<Counter>().call<&Counter::add>(1).get(soon()); });
  }

  void kill_at_a_quiet_moment(Part part) {
    ::kill(only(part), SIGKILL);
    expect_cluster_gone();
    expect_stopped();
  }

  void kill_under_load(Part part) {
    Load load{*runtime_, *actor_};
    ASSERT_TRUE(eventually([&] { return load.running(); }));
    ::kill(only(part), SIGKILL);
    expect_cluster_gone();
    EXPECT_TRUE(eventually([&] { return load.failed(ErrorCode::kRuntimeStopped) > 0; }));
    load.end();
    EXPECT_EQ(load.failed(ErrorCode::kDeadlineExceeded), 0) << "something hung";
    expect_stopped();
  }

  std::optional<Runtime> runtime_;
  std::optional<Actor<Counter>> actor_;
};

TEST_F(DeathsTest, WhenTheNodeIsKilledEverythingEndsAndTheDriverSeesRuntimeStopped) {
  kill_at_a_quiet_moment(Part::kNode);
}
TEST_F(DeathsTest, WhenTheNodeIsKilledUnderLoadEverythingEndsAndTheDriverSeesRuntimeStopped) {
  kill_under_load(Part::kNode);
}
TEST_F(DeathsTest, WhenTheKeeperIsKilledEverythingEndsAndTheDriverSeesRuntimeStopped) {
  kill_at_a_quiet_moment(Part::kKeeper);
}
TEST_F(DeathsTest, WhenTheKeeperIsKilledUnderLoadEverythingEndsAndTheDriverSeesRuntimeStopped) {
  kill_under_load(Part::kKeeper);
}

TEST_F(DeathsTest, AThreadThatWaitsWhenTheNodeIsKilledIsToldAtOnce) {
  const pid_t node = only(Part::kNode);
  const auto pending = actor_->call<&Counter::stay>(20'000);
  EXPECT_LT(time_of([&] {
              ::kill(node, SIGKILL);
              message_of<RuntimeStopped>([&] { pending.get(soon()); });
            }),
            1s);
}

TEST_F(DeathsTest, WhenTheZygoteIsKilledRunningActorsGoOnAndNewOnesCome) {
  ::kill(only(Part::kZygote), SIGKILL);
  EXPECT_EQ(actor_->call<&Counter::add>(1).get(soon()), 2);
  // The new actor is made at once, when the node may not know yet that the zygote is dead.
  const auto fresh = runtime_->spawn<Counter>();
  EXPECT_EQ(fresh.call<&Counter::add>(5).get(soon()), 5);
  EXPECT_EQ(actor_->call<&Counter::add>(1).get(soon()), 3);
}

TEST_F(DeathsTest, WhenTheZygoteIsKilledUnderLoadNothingFailsAndNewActorsCome) {
  Load load{*runtime_, *actor_};
  ASSERT_TRUE(eventually([&] { return load.running(); }));
  const pid_t zygote = only(Part::kZygote);
  ::kill(zygote, SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto found = census().processes(Part::kZygote);
    return found.size() == 1 && found.front().pid != zygote;
  }));
  EXPECT_EQ(runtime_->spawn<Counter>().call<&Counter::add>(5).get(soon()), 5);
  load.end();
  EXPECT_EQ(load.failed_otherwise(ErrorCode::kActorDied), 0);
  EXPECT_EQ(load.failed(ErrorCode::kActorDied), 0);
}

TEST_F(DeathsTest, AWorkerThatDiesAfterItsZygoteStillSaysHow) {
  const pid_t worker = actor_->call<&Counter::process>().get();
  const pid_t zygote = only(Part::kZygote);
  ::kill(zygote, SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto found = census().processes(Part::kZygote);
    return found.size() == 1 && found.front().pid != zygote;
  }));
  ::kill(worker, SIGKILL);
  EXPECT_SAYS(message_of<ActorDied>([&] {
                for (;;) actor_->call<&Counter::add>(1).get(soon());
              }),
              "SIGKILL");
}

TEST_F(DeathsTest, AnActorWhoseZygoteDiedWhenItWasMadeCanBeKilled) {
  for (int round = 0; round < 24; ++round) {
    runtime_.emplace();
    const auto fresh = runtime_->spawn<Counter>();
    std::this_thread::sleep_for(std::chrono::microseconds{40 * round});  // the instant is the test's parameter
    ::kill(only(Part::kZygote), SIGKILL);
    const pid_t worker = fresh.call<&Counter::process>().get(soon());
    fresh.kill();
    EXPECT_TRUE(eventually([&] { return ::kill(worker, 0) != 0; })) << "round " << round;
  }
}

TEST_F(DeathsTest, AZygoteThatEndsAgainAndAgainIsATypedErrorNotAHang) {
  constexpr int kStarts = 4;  // a node starts a zygote that does not live for long three more times
  for (int i = 0; i < kStarts; ++i) {
    const pid_t zygote = only(Part::kZygote);
    ASSERT_NE(zygote, 0) << "after " << i << " kills";
    ::kill(zygote, SIGKILL);
    ASSERT_TRUE(eventually([&] { return ::kill(zygote, 0) != 0; }));
  }
  const auto fresh = runtime_->spawn<Counter>();
  EXPECT_SAYS(message_of<ActorDied>([&] { fresh.call<&Counter::add>(1).get(soon()); }),
              "the program's zygote is gone, so it can have no new workers");
  EXPECT_EQ(census().processes(Part::kZygote).size(), 0U);
  EXPECT_EQ(actor_->call<&Counter::add>(1).get(soon()), 2);
}

TEST_F(DeathsTest, WhenATaskWorkerIsKilledUnderLoadItsTasksSayWorkerDiedAndOthersRun) {
  int died = 0;
  for (int i = 0; i < 5; ++i) {
    std::vector<Ref<int>> results;
    // The worker that the last round has killed may be given one more task before the node knows of its death.
    int worker = 0;
    ASSERT_TRUE(eventually([&] {
      const auto outcome = runtime_->submit<&process>().try_get(soon());
      if (outcome) worker = *outcome;
      return outcome.ok();
    }));
    for (int j = 0; j < 20'000; ++j) results.push_back(runtime_->submit<&twice>(j));
    ::kill(worker, SIGKILL);
    for (std::size_t j = 0; j < results.size(); ++j) {
      const auto outcome = results[j].try_get(soon());
      if (outcome) {
        ASSERT_EQ(*outcome, static_cast<int>(2 * j));
      } else {
        ASSERT_EQ(outcome.error().code(), ErrorCode::kWorkerDied) << outcome.error().to_string();
        ++died;
      }
    }
    EXPECT_TRUE(eventually([&] { return runtime_->submit<&twice>(4).try_get(soon()).ok(); }));
  }
  EXPECT_GT(died, 0) << "no worker was killed while it had tasks";
}

TEST_F(DeathsTest, WhenAnActorsWorkerIsKilledUnderLoadItsCallsSayActorDiedAndOthersGoOn) {
  const auto other = runtime_->spawn<Counter>();
  EXPECT_EQ(other.call<&Counter::add>(1).get(), 1);
  Load load{*runtime_, *actor_};
  ASSERT_TRUE(eventually([&] { return load.running(); }));
  const pid_t worker = actor_->call<&Counter::process>().get(soon());
  ::kill(worker, SIGKILL);
  EXPECT_TRUE(eventually([&] { return load.failed(ErrorCode::kActorDied) > 0; }));
  EXPECT_EQ(other.call<&Counter::add>(1).get(soon()), 2);
  load.end();
  EXPECT_EQ(load.failed_otherwise(ErrorCode::kActorDied), 0);
}

class DriverDeathsTest : public ClusterTest {
 protected:
  static void run_until_ready(ChildProgram& program) {
    while (program.next_line() != "ready") {
    }
  }
  static bool says_that_the_node_died(const std::string& line) {
    return line.starts_with("RuntimeStopped: ") || line.starts_with("unexpected: starting Pharos");
  }
};

TEST_F(DriverDeathsTest, AKilledDriverLeavesNothing) {
  ChildProgram program{CLUSTER_DRIVER, {"quiet"}};
  run_until_ready(program);
  program.kill(SIGKILL);
  program.wait();
  census().expect_nothing_left();
}

TEST_F(DriverDeathsTest, ADriverKilledUnderLoadLeavesNothing) {
  ChildProgram program{CLUSTER_DRIVER, {"load"}};
  run_until_ready(program);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(program.next_line(), "round");
  program.kill(SIGKILL);
  program.wait();
  census().expect_nothing_left();
}

TEST_F(DriverDeathsTest, ADriverKilledWhileItStartsLeavesNothing) {
  const auto start = time_until_ready(CLUSTER_DRIVER, {"quiet"});
  census().expect_nothing_left();
  int was_starting = 0;  // rounds in which a part of the cluster was there, and the program was not ready
  for (int round = 0; round < 20; ++round) {
    ChildProgram program{CLUSTER_DRIVER, {"quiet"}};
    std::this_thread::sleep_for(round * start / 20);  // the instant is the test's parameter
    const bool has_begun = census().processes().size() > 1;
    program.kill(SIGKILL);
    const auto end = program.wait();
    EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.status << end.output << end.error;
    was_starting += has_begun && end.output.find("ready") == std::string::npos ? 1 : 0;
    census().expect_nothing_left();
  }
  EXPECT_GT(was_starting, 0) << "no kill came during the start";
}

TEST_F(DriverDeathsTest, ANodeKilledWhileItsDriverStartsLeavesNothing) {
  must_end_within(120s);
  int was_starting = 0;
  for (int round = 0; round < 40; ++round) {
    ChildProgram program{CLUSTER_DRIVER, {"quiet"}};
    ASSERT_TRUE(eventually([&] {
      const auto found = census().processes(Part::kNode);
      if (found.empty()) return false;
      std::this_thread::sleep_for(
          std::chrono::microseconds{200 * (round % 20)});  // the instant is the test's parameter
      return ::kill(found.front().pid, SIGKILL) == 0;
    }));
    // A program that was ready waits for SIGTERM, and then ends in order: it has not asked for anything since.
    if (const auto line = program.line_within(10s); line == "ready") {
      program.kill(SIGTERM);
      EXPECT_EQ(program.wait().status, 0);
    } else {
      ++was_starting;
      ASSERT_TRUE(line.has_value()) << "the program was not told; its standard error: " << program.error();
      EXPECT_TRUE(says_that_the_node_died(*line)) << *line;
      const auto end = program.wait();
      EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) != 0) << end.status;
    }
    census().expect_nothing_left(2s);
  }
  EXPECT_GT(was_starting, 0) << "no kill came during the start";
}

TEST_F(DriverDeathsTest, InterruptOfTheProcessGroupEndsDriverWorkersAndClusterAtOnce) {
  for (const char* const mode : {"quiet", "load"}) {
    ChildProgram program{CLUSTER_DRIVER, {mode}};
    run_until_ready(program);
    program.kill_group(SIGINT);
    EXPECT_LT(time_of([&] {
                const auto end = program.wait();
                EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGINT) << end.status;
                census().expect_nothing_left();
              }),
              1s);
  }
}

TEST_F(DriverDeathsTest, ControlCInATerminalEndsDriverWorkersAndClusterAtOnce) {
  for (const char* const mode : {"quiet", "load"}) {
    OnTerminal program{CLUSTER_DRIVER, {mode}};
    program.read_until("ready");
    constexpr char kControlC = 3;
    ASSERT_EQ(::write(program.terminal, &kControlC, 1), 1);
    EXPECT_LT(time_of([&] {
                int status = 0;
                EXPECT_EQ(::waitpid(program.pid, &status, 0), program.pid);
                EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status << program.seen;
                census().expect_nothing_left();
              }),
              1s);
  }
}

TEST_F(DriverDeathsTest, ATerminationThatTheProgramHandlesEndsItInOrder) {
  ChildProgram program{CLUSTER_DRIVER, {"load"}};
  run_until_ready(program);
  program.kill(SIGTERM);
  EXPECT_EQ(program.wait().status, 0);
  census().expect_nothing_left(1s);
}

TEST_F(DriverDeathsTest, AStoppedDriverThatGoesOnFindsItsClusterThere) {
  ChildProgram program{CLUSTER_DRIVER, {"load"}};
  run_until_ready(program);
  program.kill(SIGSTOP);
  while (program.line_within(200ms)) {  // what it wrote before it was stopped
  }
  EXPECT_EQ(program.line_within(1s), std::nullopt) << "the program was not stopped";
  program.kill(SIGCONT);
  EXPECT_EQ(program.next_line(), "round");
  program.kill(SIGTERM);
  EXPECT_EQ(program.wait().status, 0);
}

}  // namespace
}  // namespace pharos::cluster::deaths
