#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::nesting {
namespace {

using namespace std::chrono_literals;

// Calls inside calls: code in a worker uses a Runtime as a program does.

int twice(int value) {
  return 2 * value;
}
int twice_in_another_worker(int value) {
  Runtime runtime;
  return runtime.submit<&twice>(value).get();
}
int fibonacci(int n) {
  if (n < 2) return n;
  Runtime runtime;
  const auto first = runtime.submit<&fibonacci>(n - 1);
  const auto second = runtime.submit<&fibonacci>(n - 2);
  return first.get() + second.get();
}
int stay(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}
int stay_in_another_worker(int ms) {
  Runtime runtime;
  return runtime.submit<&stay>(ms).get();
}
int process() {
  return ::getpid();
}
int fail() {
  throw std::runtime_error{"the innermost"};
}
int fail_in_another_worker() {
  Runtime runtime;
  return runtime.submit<&fail>().get();
}
int processes_of_two_levels() {
  Runtime runtime;
  return runtime.submit<&process>().get() == ::getpid() ? 1 : 2;
}

void write_file(const std::string& path) {
  std::ofstream{path} << "here";
}
void wait_for_file(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
}
/// Writes the file "begun", and waits for an inner task once the file "told" exists.
int block_when_told(const std::string& folder) {
  write_file(folder + "/begun");
  wait_for_file(folder + "/told");
  return twice_in_another_worker(2);
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }
  int process() const { return ::getpid(); }

 private:
  int value_ = 0;
};

class Napper {
 public:
  int nap(int ms) { return stay(ms); }
};

/// Calls an actor whose handle it is given.
class Adder {
 public:
  int add_to(Actor<Counter> counter, int amount) { return counter.call<&Counter::add>(amount).get(); }
};

/// Calls `napper`, and calls `called` to show that the first call is on its way, before it waits for the nap.
int call_behind(const Actor<Napper>& napper, const Actor<Counter>& called) {
  const auto nap = napper.call<&Napper::nap>(1);
  called.call<&Counter::add>(1).get();
  return nap.get();
}

/// An actor that makes actors and tasks.
class Parent {
 public:
  int make_child() {
    Runtime runtime;
    child_.emplace(runtime.spawn<Counter>());
    return child_->call<&Counter::process>().get();
  }
  int add_to_child(int amount) { return child_->call<&Counter::add>(amount).get(); }
  int sum_of_tasks(int count) {
    Runtime runtime;
    std::vector<Ref<int>> results;
    for (int i = 0; i < count; ++i) results.push_back(runtime.submit<&twice>(i));
    int sum = 0;
    for (const auto& result : results) sum += result.get();
    return sum;
  }
  int process() const { return ::getpid(); }

 private:
  std::optional<Actor<Counter>> child_;
};

int sum_in_an_actor_of_its_own(int count) {
  Runtime runtime;
  return runtime.spawn<Parent>().call<&Parent::sum_of_tasks>(count).get();
}

Deadline soon() {
  return Deadline::in(20s);
}

using NestingTest = ClusterTest;

TEST_F(NestingTest, ATaskSubmitsATaskAndWaits) {
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&twice_in_another_worker>(21).get(soon()), 42);
}

TEST_F(NestingTest, OnOneCpuToo) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  std::vector<Ref<int>> results;
  for (int i = 0; i < 50; ++i) results.push_back(runtime.submit<&twice_in_another_worker>(i));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)].get(soon()), 2 * i);
}

TEST_F(NestingTest, AWaitingTaskGivesItsCpuToAnother) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  EXPECT_EQ(runtime.submit<&processes_of_two_levels>().get(soon()), 2);
  // The second task runs while the first one waits for its inner task.
  const auto first = runtime.submit<&stay_in_another_worker>(500);
  EXPECT_EQ(runtime.submit<&twice>(2).get(soon()), 4);
  EXPECT_EQ(first.get(soon()), 500);
}

TEST_F(NestingTest, ATaskThatWasCancelledInAQueueBehindABlockedOneDoesNotRun) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  const std::string folder = census().folder() / "files";
  std::filesystem::create_directory(folder);
  // After many short tasks, the caller queues the next task behind the one that the worker runs.
  for (int i = 0; i < 200; ++i) runtime.submit<&twice>(i).get(soon());
  const auto blocked = runtime.submit<&block_when_told>(folder);
  const auto behind = runtime.submit<&write_file>(folder + "/ran");
  wait_for_file(folder + "/begun");
  behind.cancel();
  write_file(folder + "/told");
  EXPECT_EQ(blocked.get(soon()), 4);
  const auto outcome = behind.try_get(soon());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(outcome.error().outcome(), Outcome::kNotStarted);
  EXPECT_FALSE(std::filesystem::exists(folder + "/ran"));
  std::filesystem::remove_all(folder);
}

TEST_F(NestingTest, RecursiveFibonacciEndsOnTwoCpusWithFewProcesses) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const auto result = runtime.submit<&fibonacci>(18);
  std::size_t most = 0;
  while (!result.ready()) {
    most = std::max(most, census().processes(Part::kWorker).size());
    pause_before_looking_again();
  }
  EXPECT_EQ(result.get(soon()), 2584);
  EXPECT_LE(most, 4u * 2 + 4);
}

TEST_F(NestingTest, WhatAnInnerTaskThrowsReachesTheOuterCaller) {
  Runtime runtime;
  EXPECT_SAYS(message_of<UserError>([&] { runtime.submit<&fail_in_another_worker>().get(soon()); }), "the innermost");
}

TEST_F(NestingTest, AnActorMakesActorsThatEndWithIt) {
  Runtime runtime;
  const auto parent = runtime.spawn<Parent>();
  const int child = parent.call<&Parent::make_child>().get(soon());
  EXPECT_EQ(parent.call<&Parent::add_to_child>(5).get(soon()), 5);
  EXPECT_EQ(parent.call<&Parent::add_to_child>(5).get(soon()), 10);
  ::kill(parent.call<&Parent::process>().get(soon()), SIGKILL);
  EXPECT_TRUE(eventually([&] { return ::kill(child, 0) != 0; }, 2s));
}

TEST_F(NestingTest, ATaskMakesAnActorThatSubmitsTasks) {
  Runtime runtime{RuntimeOptions{.cpus = 1}};
  EXPECT_EQ(runtime.submit<&sum_in_an_actor_of_its_own>(100).get(soon()), 9900);
}

TEST_F(NestingTest, WhenATaskDiesTheTasksThatItSubmittedEndToo) {
  Runtime runtime;
  const auto outer = runtime.submit<&stay_in_another_worker>(20'000);
  std::vector<FoundProcess> workers = census().wait_for(Part::kWorker, 2);
  ASSERT_EQ(workers.size(), 2u);
  ::kill(std::min(workers[0].pid, workers[1].pid), SIGKILL);  // the worker of the outer task was started first
  message_of<WorkerDied>([&] { outer.get(soon()); });
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 3s));
  EXPECT_EQ(runtime.submit<&twice>(2).get(soon()), 4);
}

// The reply to the nap of `second` is queued while the worker already collects replies, and `third`, a long call of
// another caller, is already there. So only the timer of collected replies can write the reply in time.
TEST_F(NestingTest, AReplyDoesNotWaitForAnotherCallersCallBehindIt) {
  Runtime runtime;
  const auto napper = runtime.spawn<Napper>();
  const auto called = runtime.spawn<Counter>();
  EXPECT_EQ(napper.call<&Napper::nap>(0).get(soon()), 0);
  EXPECT_EQ(called.call<&Counter::add>(0).get(soon()), 0);
  const auto first = napper.call<&Napper::nap>(300);
  const auto second = runtime.submit<&call_behind>(napper, called);
  ASSERT_TRUE(eventually([&] { return called.call<&Counter::add>(0).get(soon()) == 1; }));
  const auto third = napper.call<&Napper::nap>(1500);
  EXPECT_LT(time_of([&] { EXPECT_EQ(second.get(soon()), 1); }), 1s);
  EXPECT_FALSE(third.ready());
  EXPECT_EQ(third.get(soon()), 1500);
  EXPECT_EQ(first.get(soon()), 300);
}

TEST_F(NestingTest, AHandleMayBePassedOnBeforeItsActorIsThere) {
  Runtime runtime;
  const auto adder = runtime.spawn<Adder>();
  EXPECT_EQ(adder.call<&Adder::add_to>(runtime.spawn<Counter>(), 1).get(soon()), 1);
  for (int round = 0; round < 100; ++round) {
    const auto counter = runtime.spawn<Counter>();
    const auto sum = adder.call<&Adder::add_to>(counter, round);
    EXPECT_EQ(sum.get(soon()), round);
  }
}

}  // namespace
}  // namespace pharos::cluster::nesting
