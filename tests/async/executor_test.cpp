#include <pharos/async/manual_executor.hpp>
#include <pharos/async/thread_executor.hpp>

#include "executor_conformance.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

class ManualUnderTest final : public ExecutorUnderTest {
 public:
  Executor& executor() override { return executor_; }
  void work_until(std::latch& happened) override {
    executor_.run_until_idle();
    for (int step = 0; step < 1000 && !happened.try_wait(); ++step) executor_.advance(1ms);
    ASSERT_TRUE(happened.try_wait());
  }

 private:
  ManualExecutor executor_;
};

class ThreadUnderTest final : public ExecutorUnderTest {
 public:
  Executor& executor() override { return executor_; }
  void work_until(std::latch& happened) override { happened.wait(); }

 private:
  ThreadExecutor executor_{"under-test"};
};

template <class T>
ExecutorMaker maker() {
  return [] { return std::make_unique<T>(); };
}

INSTANTIATE_TEST_SUITE_P(Manual, ExecutorConformance, testing::Values(maker<ManualUnderTest>()));
INSTANTIATE_TEST_SUITE_P(Thread, ExecutorConformance, testing::Values(maker<ThreadUnderTest>()));

TEST(ManualExecutor, DoesNothingUntilItIsDriven) {
  ManualExecutor executor;
  bool ran = false;
  executor.post([&] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_EQ(executor.run_until_idle(), 1u);
  EXPECT_TRUE(ran);
}

TEST(ManualExecutor, ATimerFindsTheTimeThatItAskedForHoweverFarTimeIsAdvanced) {
  ManualExecutor executor;
  const auto start = executor.now();
  std::vector<Duration> seen;
  executor.run_at(start + 3s, [&] { seen.push_back(executor.now() - start); });
  executor.run_at(start + 1s, [&] {
    seen.push_back(executor.now() - start);
    executor.run_at(executor.now() + 1s, [&] { seen.push_back(executor.now() - start); });
  });
  executor.advance(10s);
  EXPECT_EQ(seen, (std::vector<Duration>{1s, 2s, 3s}));
  EXPECT_EQ(executor.now(), start + 10s);
}

TEST(ManualExecutor, WhatIsPostedRunsBeforeTimersThatAreDue) {
  ManualExecutor executor;
  std::vector<int> ran;
  executor.run_at(executor.now(), [&] { ran.push_back(3); });
  executor.post([&] {
    ran.push_back(1);
    executor.post([&] { ran.push_back(2); });
  });
  executor.run_until_idle();
  EXPECT_EQ(ran, (std::vector{1, 2, 3}));
}

TEST(ManualExecutor, NamesTheNextTimerSoThatASimulatorCanJumpToIt) {
  ManualExecutor executor;
  EXPECT_EQ(executor.next_timer(), std::nullopt);
  const auto when = executor.now() + 5s;
  executor.run_at(when, [] {});
  EXPECT_EQ(executor.next_timer(), when);
  executor.advance(when - executor.now());
  EXPECT_EQ(executor.next_timer(), std::nullopt);
}

TEST(ManualExecutorDeathTest, MustNotBeDrivenFromACallback) {
  ManualExecutor executor;
  executor.post([&] { executor.run_until_idle(); });
  EXPECT_DEATH(executor.run_until_idle(), "check failed: !running_");
}

TEST(ThreadExecutor, EndsAfterWhatIsPostedAndDropsItsTimers) {
  std::vector<int> ran;
  const auto owned = std::make_shared<int>();
  {
    ThreadExecutor executor{"a name that is longer than fifteen"};
    executor.run_at(executor.now() + 1h, [owned] { FAIL(); });
    executor.post([&] {
      ran.push_back(1);
      executor.post([&] { ran.push_back(2); });
    });
  }
  EXPECT_EQ(ran, (std::vector{1, 2}));
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace pharos::async
