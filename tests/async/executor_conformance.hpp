#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <pharos/async/executor.hpp>

/// Tests that every Executor must pass. The tests of a backend include this header and instantiate the suite:
///
///   INSTANTIATE_TEST_SUITE_P(Manual, ExecutorConformance, testing::Values(ExecutorMaker{[] { … }}));
namespace pharos::async {

/// An executor, and a way to let it work until a latch is released.
class ExecutorUnderTest {
 public:
  virtual ~ExecutorUnderTest() = default;
  virtual Executor& executor() = 0;
  virtual void work_until(std::latch& happened) = 0;
};

using ExecutorMaker = std::function<std::unique_ptr<ExecutorUnderTest>()>;

class ExecutorConformance : public testing::TestWithParam<ExecutorMaker> {
 protected:
  /// Runs all work that was posted before this call.
  void settle() {
    std::latch settled{1};
    executor().post([&settled] { settled.count_down(); });
    under_test_->work_until(settled);
  }
  void work_until(std::latch& happened) { under_test_->work_until(happened); }
  Executor& executor() { return under_test_->executor(); }

  std::unique_ptr<ExecutorUnderTest> under_test_ = GetParam()();
};

TEST_P(ExecutorConformance, RunsWhatIsPostedInOrder) {
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) executor().post([&ran, i] { ran.push_back(i); });
  settle();
  ASSERT_EQ(ran.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST_P(ExecutorConformance, RunsNothingInsidePostEvenFromACallback) {
  std::vector<int> ran;
  executor().post([&] {
    executor().post([&] { ran.push_back(2); });
    executor().run_at(executor().now(), [&] { ran.push_back(3); });
    ran.push_back(1);
  });
  std::latch happened{1};
  executor().run_at(executor().now() + std::chrono::milliseconds{1}, [&] { happened.count_down(); });
  work_until(happened);
  settle();
  ASSERT_GE(ran.size(), 2u);
  EXPECT_EQ(ran[0], 1);
  EXPECT_EQ(ran[1], 2);
}

TEST_P(ExecutorConformance, NeverRunsTwoCallbacksAtOnceHoweverManyThreadsPost) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 500;
  int unguarded = 0;  // a strand needs no lock; the thread sanitizer would see if this were wrong
  std::atomic<bool> inside{false};
  std::atomic<int> overlaps{0};
  std::latch all{kThreads * kPosts};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        executor().post([&] {
          if (inside.exchange(true)) ++overlaps;
          ++unguarded;
          inside = false;
          all.count_down();
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  work_until(all);
  settle();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(unguarded, kThreads * kPosts);
}

TEST_P(ExecutorConformance, RunsTimersByTimeThenByTheirOrder) {
  std::vector<int> ran;
  std::latch all{3};
  const auto note = [&](int n) {
    return [&ran, &all, n] {
      ran.push_back(n);
      all.count_down();
    };
  };
  const auto start = executor().now();
  // The timers are set inside a callback, so that none can run before all are set.
  executor().post([&] {
    executor().run_at(start + std::chrono::milliseconds{3}, note(3));
    executor().run_at(start + std::chrono::milliseconds{2}, note(1));
    executor().run_at(start + std::chrono::milliseconds{2}, note(2));
  });
  work_until(all);
  settle();
  EXPECT_EQ(ran, (std::vector{1, 2, 3}));
}

TEST_P(ExecutorConformance, RunsNoTimerBeforeItsTime) {
  const auto when = executor().now() + std::chrono::milliseconds{5};
  TimePoint ran_at;
  std::latch ran{1};
  executor().run_at(when, [&] {
    ran_at = executor().now();
    ran.count_down();
  });
  work_until(ran);
  settle();
  EXPECT_GE(ran_at, when);
}

TEST_P(ExecutorConformance, RunsATimerOfThePastSoon) {
  std::latch ran{1};
  executor().run_at(TimePoint::min(), [&] { ran.count_down(); });
  work_until(ran);
}

TEST_P(ExecutorConformance, ATimerInTheFarFutureHoldsNothingUp) {
  const auto timer = executor().run_at(TimePoint::max() - std::chrono::nanoseconds{1}, [] { FAIL(); });
  settle();
  EXPECT_TRUE(executor().cancel(timer));
}

TEST_P(ExecutorConformance, ACancelledTimerNeverRunsAndItsWorkIsDestroyedAtOnce) {
  bool ran = false;
  const auto owned = std::make_shared<int>();
  const auto soon = executor().now() + std::chrono::milliseconds{5};
  std::latch later{1};
  // The timer is set and cancelled inside a callback, so that it cannot run in between.
  executor().post([&] {
    const auto timer = executor().run_at(soon, [&ran, owned] { ran = true; });
    EXPECT_TRUE(executor().cancel(timer));
    EXPECT_EQ(owned.use_count(), 1);
    executor().run_at(soon + std::chrono::milliseconds{1}, [&] { later.count_down(); });
  });
  work_until(later);
  settle();
  EXPECT_FALSE(ran);
}

TEST_P(ExecutorConformance, ATimerIsCancelledOnceAndNotAfterItHasRun) {
  std::latch ran{1};
  const auto timer = executor().run_at(executor().now(), [&] { ran.count_down(); });
  work_until(ran);
  settle();
  EXPECT_FALSE(executor().cancel(timer));
  const auto other = executor().run_at(executor().now() + std::chrono::hours{1}, [] { FAIL(); });
  EXPECT_TRUE(executor().cancel(other));
  EXPECT_FALSE(executor().cancel(other));
  EXPECT_FALSE(executor().cancel(TimerId{}));
}

TEST_P(ExecutorConformance, AnEarlierTimerIsNotHeldUpByALaterOne) {
  const auto late = executor().run_at(executor().now() + std::chrono::hours{1}, [] { FAIL(); });
  settle();
  std::latch ran{1};
  executor().run_at(executor().now() + std::chrono::milliseconds{1}, [&] { ran.count_down(); });
  work_until(ran);
  EXPECT_TRUE(executor().cancel(late));
}

}  // namespace pharos::async
