// Nodes that have too little memory. The node of each test is in a memory cgroup with a low limit, so that the test
// needs only little memory to exceed it.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "memory_group.hpp"

namespace pharos::cluster::out_of_memory {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Takes memory and writes to it, so that it is in use. The process keeps it until its end.
void take(std::size_t mebibytes) {
  for (std::size_t i = 0; i < mebibytes; ++i) {
    auto* const piece = static_cast<volatile char*>(std::malloc(kMiB));
    for (std::size_t at = 0; at < kMiB; at += 4096) piece[at] = 1;
  }
}
/// Takes at most 200 MiB a second, so that the node has time to notice.
int take_without_end() {
  for (;;) {
    take(1);
    ::usleep(5000);
  }
}
int take_as_fast_as_may_be() {
  for (;;) take(64);
}
int take_and_end(int mebibytes) {
  take(static_cast<std::size_t>(mebibytes));
  return ::getpid();
}
/// On the first attempt, waits until the file `folder`/go exists and then takes memory without end. On later attempts,
/// takes none and returns the number of the attempt.
std::uint32_t take_at_first(const std::string& folder) {
  if (context().attempt > 0) return context().attempt;
  std::ofstream{folder + "/begun"} << ::getpid();
  while (!fs::exists(folder + "/go")) ::usleep(1000);
  return static_cast<std::uint32_t>(take_without_end());
}

class Hoard {
 public:
  int take_some(int mebibytes) { return take_and_end(mebibytes); }
  int take_all() { return take_without_end(); }
  int process() { return ::getpid(); }
};

class OutOfMemoryTest : public ClusterTest {
 protected:
  void TearDown() override {
    runtime_.reset();
    for (const char* const name : {"PHAROS_DAEMON", "PHAROS_MEMORY_THRESHOLD", "PHAROS_RESOURCES"}) ::unsetenv(name);
    EXPECT_TRUE(eventually([&] { return group_.remove(); }));
    fs::remove_all(folder());
    ClusterTest::TearDown();
  }
  /// Starts a cluster whose processes, except this one, share this memory limit.
  void start(std::size_t mebibytes, const std::string& threshold, const std::string& resources = "cpu=2,gpu=2") {
    must_end_within(60s);
    if (const std::string why = group_.make(mebibytes); !why.empty()) GTEST_SKIP() << "no memory cgroup: " << why;
    fs::create_directory(folder());
    const fs::path script = folder() / "in_group";
    std::ofstream{script} << "#!/bin/sh\necho $$ > " << group_.folder().string() << "/cgroup.procs\nexec "
                          << PHAROS_EXECUTABLE << " \"$@\"\n";
    fs::permissions(script, fs::perms::owner_all);
    ::setenv("PHAROS_DAEMON", script.c_str(), 1);
    ::setenv("PHAROS_MEMORY_THRESHOLD", threshold.c_str(), 1);
    ::setenv("PHAROS_RESOURCES", resources.c_str(), 1);
    runtime_.emplace(RuntimeOptions{.object_store = 64_MiB});
  }
  fs::path folder() const { return census().folder() / "files"; }
  /// Returns whether tasks hold no resources in the only cluster of this test.
  static bool tasks_have_nothing() {
    const auto nodes = ChildProgram{PHAROS_EXECUTABLE, {"list", "nodes", "--format", "json"}}.wait();
    return nodes.output.find("\"tasks_have\": \"\"") != std::string::npos;
  }
  static bool lives(int pid) { return ::kill(pid, 0) == 0; }

  MemoryGroup group_;
  std::optional<Runtime> runtime_;
};

TEST_F(OutOfMemoryTest, ATaskThatTakesMemoryWithoutEndIsKilledAndItsErrorSaysWhyWithNumbers) {
  start(400, "0.5");
  if (IsSkipped()) return;
  const auto older = runtime_->spawn<Hoard>();
  const int process = older.call<&Hoard::take_some>(40).get();
  try {
    runtime_->submit<&take_without_end>({.cpus = 1}).get();
    FAIL() << "it came to an end";
  } catch (const Exhausted& error) {
    EXPECT_EQ(error.outcome(), Outcome::kUnknown);
    EXPECT_SAYS(error.what(),
                "the worker that ran the task ended: the node killed it because memory was short: it had ");
    EXPECT_SAYS(error.what(), " MiB, and ");
    EXPECT_SAYS(error.what(), " of the 400 MiB that the node's cgroup allows were in use; the limit is 50%");
    EXPECT_SAYS(error.what(), "Set .memory, ");
  }
  EXPECT_EQ(older.call<&Hoard::process>().get(), process) << "who was there before is not to blame";
  EXPECT_EQ(runtime_->submit<&take_and_end>({}, 1).get() > 0, true) << "the node goes on";
}

/// One trial takes memory without end, on each attempt; the other trials need little.
double trial_that_takes(const ml::Params& params) {
  const int n = params.get<int>("n");
  return n == 2 ? take_without_end() : n;
}

TEST_F(OutOfMemoryTest, ATrialThatTakesMemoryWithoutEndIsTheOneThatFailsAndItsErrorSaysWhy) {
  start(400, "0.5");
  if (IsSkipped()) return;
  std::vector<ml::Value> numbers;
  for (std::int64_t n = 0; n < 6; ++n) numbers.emplace_back(n);
  const ml::Space space{{"n", ml::grid(numbers)}};
  ml::TunerOptions options{.space = space, .at_once = 2, .worker = {}, .retries = 1, .progress = false};
  options.searcher = ml::grid_search(space);
  const auto results = ml::Tuner{*runtime_, std::move(options)}.run<&trial_that_takes>();
  ASSERT_EQ(results.trials().size(), 6U);
  for (const ml::TrialResult& trial : results.trials()) {
    const bool takes = trial.number == 2;
    EXPECT_EQ(trial.state, takes ? ml::TrialResult::State::kFailed : ml::TrialResult::State::kComplete) << trial.error;
    if (!takes) continue;
    EXPECT_EQ(trial.attempts, 2u);
    EXPECT_SAYS(trial.error, "the node killed it because memory was short: it had ");
    EXPECT_SAYS(trial.error, " of the 400 MiB that the node's cgroup allows were in use");
  }
}

TEST_F(OutOfMemoryTest, AnIdleWorkerGoesBeforeWhatRuns) {
  start(400, "0.6");
  if (IsSkipped()) return;
  const auto hoard = runtime_->spawn<Hoard>();
  const int process = hoard.call<&Hoard::process>().get();
#if defined(__SANITIZE_THREAD__)
  constexpr int kTaken = 60;  // the sanitizer takes about as much again
#elif defined(__SANITIZE_ADDRESS__)
  constexpr int kTaken = 90;
#else
  constexpr int kTaken = 130;
#endif
  const int idle = runtime_->submit<&take_and_end>({}, kTaken).get();
  ASSERT_TRUE(eventually([] { return tasks_have_nothing(); })) << "its caller has not given it back";
  EXPECT_TRUE(lives(idle));
  EXPECT_EQ(hoard.call<&Hoard::take_some>(kTaken).get(), process);
  EXPECT_TRUE(eventually([&] { return !lives(idle); }));
  EXPECT_EQ(hoard.call<&Hoard::process>().get(), process);
}

TEST_F(OutOfMemoryTest, WhatMayRunAgainGoesBeforeWhatIsNewerAndMayNotAndIsRunAgain) {
  start(400, "0.5");
  if (IsSkipped()) return;
  const std::string files = folder();
  const auto result = runtime_->submit<&take_at_first>({.max_retries = 1}, files);
  ASSERT_TRUE(eventually([&] { return fs::exists(files + "/begun"); }));
  const auto newer = runtime_->spawn<Hoard>();
  const int process = newer.call<&Hoard::take_some>(20).get();
  std::ofstream{files + "/go"} << "now";
  EXPECT_EQ(result.get(), 1u);
  EXPECT_EQ(newer.call<&Hoard::process>().get(), process);
}

TEST_F(OutOfMemoryTest, AnActorThatMayRestartIsStartedAgainAndItsErrorsSayWhy) {
  start(400, "0.5");
  if (IsSkipped()) return;
  const auto newest_but_precious = runtime_->spawn<Hoard>({.max_restarts = 1});
  const int first = newest_but_precious.call<&Hoard::process>().get();
  const auto plain = runtime_->spawn<Hoard>();
  const int process = plain.call<&Hoard::process>().get();
  EXPECT_SAYS(message_of<Exhausted>([&] { newest_but_precious.call<&Hoard::take_all>().get(); }),
              "was restarted while the call was under way: the node killed it because memory was short");
  EXPECT_NE(newest_but_precious.call<&Hoard::process>().get(), first);
  EXPECT_EQ(plain.call<&Hoard::process>().get(), process);
  const std::string over = message_of<Exhausted>([&] { newest_but_precious.call<&Hoard::take_all>().get(); });
  EXPECT_SAYS(over, "ended: the node killed it because memory was short: it had ");
  EXPECT_SAYS(over, "it was restarted 1 time");
  EXPECT_EQ(message_of<Exhausted>([&] { newest_but_precious.call<&Hoard::process>().get(); }), over);
}

TEST_F(OutOfMemoryTest, WhereTheKernelIsFasterTheErrorSaysThat) {
  start(250, "1");
  if (IsSkipped()) return;
  const std::string why = message_of<Exhausted>([&] { runtime_->submit<&take_as_fast_as_may_be>().get(); });
  EXPECT_SAYS(why, "the worker that ran the task ended: the kernel killed it");
  EXPECT_SAYS(why, "memory ran out: the node has 250 MiB");
  EXPECT_GT(runtime_->submit<&take_and_end>({}, 1).get(), 0);
}

TEST_F(OutOfMemoryTest, WhoIsKilledOtherwiseIsNotSaidToHaveTakenMemory) {
  start(400, "0.9");
  if (IsSkipped()) return;
  const auto hoard = runtime_->spawn<Hoard>();
  ASSERT_EQ(::kill(hoard.call<&Hoard::process>().get(), SIGKILL), 0);
  EXPECT_SAYS(message_of<ActorDied>([&] { hoard.call<&Hoard::take_all>().get(); }), "SIGKILL");
}

TEST_F(OutOfMemoryTest, WhatTheCgroupAllowsIsTheNodesMemory) {
  start(400, "0.9");
  if (IsSkipped()) return;
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime_->submit<&take_and_end>({.memory = 400_MiB}, 1).get(); }),
              "400 MiB memory; the node has 336 MiB memory");
  EXPECT_GT(runtime_->submit<&take_and_end>({.memory = 336_MiB}, 1).get(), 0);
}

}  // namespace
}  // namespace pharos::cluster::out_of_memory
