#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "plain_tasks.hpp"

namespace pharos::cluster::retries {
namespace {

using namespace std::chrono_literals;

// Tests of calls that are run again when they fail, and of errors that say whether the call has run.

class Flaky : public std::runtime_error {
 public:
  Flaky() : std::runtime_error{"try again"} {}
};
class VeryFlaky : public Flaky {};

/// Fails until the given attempt. Returns the number of the attempt that succeeded.
std::uint32_t succeed_at(std::uint32_t attempt) {
  if (context().attempt < attempt) throw VeryFlaky{};
  return context().attempt;
}
/// Fails so often in this process.
int succeed_after(int failures) {
  static int failed = 0;
  if (failed++ < failures) throw Flaky{};
  return failed - 1;
}
int die_first() {
  if (context().attempt == 0) ::raise(SIGKILL);
  return 1;
}

class Recorder {
 public:
  int record(int what, std::uint32_t succeeds_at) {
    ++runs_;
    if (context().attempt < succeeds_at) throw Flaky{};
    recorded_.push_back(what);
    return what;
  }
  int fail() {
    ++runs_;
    throw std::logic_error{"always"};
  }
  int fail_when_cancelled(const std::string& path) {
    ++runs_;
    std::ofstream{path} << "runs";
    while (!cancelled()) std::this_thread::sleep_for(1ms);
    throw Flaky{};
  }
  int fail_after(int ms) {
    ++runs_;
    std::this_thread::sleep_for(std::chrono::milliseconds{ms});
    throw Flaky{};
  }
  Async<int> record_later(int what, std::uint32_t succeeds_at) {
    ++runs_;
    const auto slept = co_await async::sleep(1ms);
    if (!slept || context().attempt < succeeds_at) throw Flaky{};
    recorded_.push_back(what);
    co_return what;
  }
  std::vector<int> recorded() const { return recorded_; }
  int runs() const { return runs_; }

 private:
  std::vector<int> recorded_;
  int runs_ = 0;
};

Deadline soon() {
  return Deadline::in(20s);
}

// ---- Retries

using RetriesTest = ClusterTest;

TEST_F(RetriesTest, ATaskIsRunAgainForTheTypesThatWereChosen) {
  Runtime runtime;
  const TaskOptions options{.max_retries = 3, .retry_on = types<std::logic_error, Flaky>};
  EXPECT_EQ(runtime.submit<&succeed_at>(options, 0u).get(soon()), 0u);
  EXPECT_EQ(runtime.submit<&succeed_at>(options, 3u).get(soon()), 3u);
  EXPECT_EQ(runtime.submit<&succeed_at>({.max_retries = 1, .retry_on = types<std::exception>}, 1u).get(soon()), 1u);
}

TEST_F(RetriesTest, WithoutRetriesLeftOrForOtherTypesTheErrorArrives) {
  Runtime runtime;
  EXPECT_SAYS(message_of<UserError>(
                  [&] { runtime.submit<&succeed_at>({.max_retries = 2, .retry_on = types<Flaky>}, 3u).get(soon()); }),
              "try again");
  message_of<UserError>([&] { runtime.submit<&succeed_at>({.max_retries = 3}, 1u).get(soon()); });
  message_of<UserError>([&] { runtime.submit<&succeed_at>({.retry_on = types<Flaky>}, 1u).get(soon()); });
  message_of<UserError>([&] {
    runtime.submit<&succeed_at>({.max_retries = 3, .retry_on = types<std::logic_error, std::bad_alloc>}, 1u)
        .get(soon());
  });
}

TEST_F(RetriesTest, ANegativeNumberMeansAlways) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&succeed_after>({.max_retries = -1, .retry_on = types<Flaky>}, 600).get(soon()), 600);
  message_of<UserError>(
      [&] { runtime.submit<&succeed_after>({.max_retries = 300, .retry_on = types<Flaky>}, 1000).get(soon()); });
  EXPECT_EQ(runtime.submit<&die_first>({.max_retries = -1}).get(soon()), 1);
  const auto recorder = runtime.spawn<Recorder>({.max_restarts = -1, .max_task_retries = -1});
  EXPECT_EQ(recorder.call<[](Recorder&) { return die_first(); }>().get(soon()), 1);
}

TEST_F(RetriesTest, ATaskWhoseWorkerDiesRunsAgain) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&die_first>({.max_retries = 1, .retry_on = types<Flaky>}).get(soon()), 1);
}

TEST_F(RetriesTest, ARetriedCallKeepsItsPlaceInTheOrder) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  std::vector<Ref<int>> calls;
  for (int i = 0; i < 50; ++i) {
    const auto fails = static_cast<std::uint32_t>(i % 3);
    calls.push_back(recorder.call<&Recorder::record>({.max_retries = 2, .retry_on = types<Flaky>}, i, fails));
  }
  std::vector<int> in_order;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(calls[static_cast<std::size_t>(i)].get(soon()), i);
    in_order.push_back(i);
  }
  EXPECT_EQ(recorder.call<&Recorder::recorded>().get(soon()), in_order);
}

TEST_F(RetriesTest, ACoroutineIsRunAgainToo) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  const CallOptions options{.max_retries = 2, .retry_on = types<Flaky>};
  EXPECT_EQ(recorder.call<&Recorder::record_later>(options, 5, 2u).get(soon()), 5);
  EXPECT_SAYS(message_of<UserError>([&] { recorder.call<&Recorder::record_later>(options, 6, 3u).get(soon()); }),
              "Recorder::record_later threw ");
  EXPECT_EQ(recorder.call<&Recorder::recorded>().get(soon()), std::vector<int>{5});
  EXPECT_EQ(recorder.call<&Recorder::runs>().get(soon()), 6);
}

TEST_F(RetriesTest, ACallIsRunNoOftenerThanItMayBe) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  message_of<UserError>(
      [&] { recorder.call<&Recorder::fail>({.max_retries = 4, .retry_on = types<std::logic_error>}).get(soon()); });
  EXPECT_EQ(recorder.call<&Recorder::runs>().get(soon()), 5);
  message_of<UserError>(
      [&] { recorder.call<&Recorder::fail>({.max_retries = 4, .retry_on = types<Flaky>}).get(soon()); });
  EXPECT_EQ(recorder.call<&Recorder::runs>().get(soon()), 6);
}

TEST_F(RetriesTest, ACallThatIsWantedNoMoreIsNotRunAgain) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  const std::string path = census().folder() / "runs";
  const auto cancelled =
      recorder.call<&Recorder::fail_when_cancelled>({.max_retries = 254, .retry_on = types<Flaky>}, path);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path); }));
  cancelled.cancel();
  message_of<UserError>([&] { cancelled.get(soon()); });
  std::filesystem::remove(path);
  EXPECT_EQ(recorder.call<&Recorder::runs>().get(soon()), 1);
  const auto late = recorder.call<&Recorder::fail_after>(
      {.deadline = Deadline::in(50ms), .max_retries = 254, .retry_on = types<Flaky>}, 100);
  message_of<DeadlineExceeded>([&] { late.get(soon()); });
  EXPECT_EQ(recorder.call<&Recorder::runs>().get(soon()), 2);
}

/// Runs until it is cancelled, and kills its process then. Each run writes a line to the file.
void die_when_cancelled(const std::string& path) {
  std::ofstream{path, std::ios::app} << "a run\n";
  while (!cancelled()) std::this_thread::sleep_for(1ms);
  ::raise(SIGKILL);
}
std::ptrdiff_t lines_of(const std::string& path) {
  std::ifstream file{path};
  return std::count(std::istreambuf_iterator<char>{file}, {}, '\n');
}

TEST_F(RetriesTest, ACancelledTaskWhoseWorkerDiesIsNotRunAgain) {
  Runtime runtime;
  const std::string path = census().folder() / "runs";
  const auto task = runtime.submit<&die_when_cancelled>({.max_retries = 5}, path);
  ASSERT_TRUE(eventually([&] { return lines_of(path) == 1; }));
  task.cancel();
  message_of<WorkerDied>([&] { task.get(soon()); });
  EXPECT_EQ(lines_of(path), 1);
  std::filesystem::remove(path);
}

// ---- Outcomes

int call_a_dead_actor(Actor<Recorder> dead) {
  return dead.call<&Recorder::runs>().get();
}

template <class T>
Outcome outcome_of(const Ref<T>& ref) {
  const auto result = ref.try_get(soon());
  EXPECT_FALSE(result.ok());
  return result.ok() ? Outcome{} : result.error().outcome();
}

using OutcomesTest = ClusterTest;

TEST_F(OutcomesTest, ATaskThatHasNotBegunSaysSo) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const auto busy = runtime.submit<&stay>(200);
  const auto behind = runtime.submit<&stay>(0);
  behind.cancel();
  EXPECT_EQ(outcome_of(behind), Outcome::kNotStarted);
  EXPECT_EQ(busy.get(soon()), 200);
}

TEST_F(OutcomesTest, ATaskThatFailsHasRun) {
  Runtime runtime;
  EXPECT_EQ(outcome_of(runtime.submit<&succeed_at>(1u)), Outcome::kFailed);
}

TEST_F(OutcomesTest, OfATaskWhoseWorkerDiesNothingIsKnown) {
  Runtime runtime;
  EXPECT_EQ(outcome_of(runtime.submit<&end_worker>()), Outcome::kUnknown);
}

TEST_F(OutcomesTest, ACallThatHasNotBegunSaysSo) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  recorder.kill();
  EXPECT_EQ(outcome_of(recorder.call<&Recorder::runs>()), Outcome::kNotStarted);
}

TEST_F(OutcomesTest, ACallThatFailsHasRun) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  EXPECT_EQ(outcome_of(recorder.call<&Recorder::fail>()), Outcome::kFailed);
}

TEST_F(OutcomesTest, OfACallWhoseActorDiesNothingIsKnown) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  recorder.call<&Recorder::runs>().get(soon());
  EXPECT_EQ(outcome_of(recorder.call<[](Recorder&) { return end_worker(); }>()), Outcome::kUnknown);
}

TEST_F(OutcomesTest, WhatAnInnerCallDidNotDoDoesNotUndoTheOuter) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>();
  recorder.call<&Recorder::runs>().get(soon());
  recorder.kill();
  const auto outer = runtime.submit<&call_a_dead_actor>(recorder);
  const auto result = outer.try_get(soon());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kActorDied) << result.error().to_string();
  EXPECT_EQ(result.error().outcome(), Outcome::kFailed) << result.error().to_string();
  EXPECT_SAYS(result.error().to_string(), "call_a_dead_actor");
}

TEST_F(OutcomesTest, AnActorThatWasRestartedSaysWhatEndedItsProcess) {
  Runtime runtime;
  const auto recorder = runtime.spawn<Recorder>({.name = "tape", .max_restarts = 1});
  recorder.call<&Recorder::runs>().get(soon());
  const auto ends = recorder.call<[](Recorder&) { return end_worker(); }>();
  const std::string text = message_of<ActorDied>([&] { ends.get(soon()); });
  EXPECT_SAYS(text, "actor \"tape\" was restarted");
  EXPECT_SAYS(text, "SIGKILL");
  EXPECT_SAYS(text, "max_task_retries");
}

}  // namespace
}  // namespace pharos::cluster::retries
