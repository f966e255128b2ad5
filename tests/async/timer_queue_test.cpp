#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <pharos/async/timer_queue.hpp>

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

TEST(TimerQueue, TakesTheEarliestFirstAndEqualOnesInTheirOrder) {
  TimerQueue timers;
  std::vector<int> ran;
  timers.add(kStart + 2s, [&] { ran.push_back(3); });
  timers.add(kStart + 1s, [&] { ran.push_back(1); });
  timers.add(kStart + 1s, [&] { ran.push_back(2); });
  EXPECT_EQ(timers.next(), kStart + 1s);
  while (auto work = timers.take_due(kStart + 2s)) work();
  EXPECT_EQ(ran, (std::vector{1, 2, 3}));
  EXPECT_TRUE(timers.empty());
}

TEST(TimerQueue, GivesNothingThatIsNotDue) {
  TimerQueue timers;
  timers.add(kStart + 1s, [] {});
  EXPECT_FALSE(timers.take_due(kStart + 1s - 1ns));
  EXPECT_TRUE(timers.take_due(kStart + 1s));
}

TEST(TimerQueue, CancellingTheEarliestShowsTheNext) {
  TimerQueue timers;
  const auto first = timers.add(kStart + 1s, [] {});
  timers.add(kStart + 2s, [] {});
  EXPECT_TRUE(timers.cancel(first));
  EXPECT_EQ(timers.next(), kStart + 2s);
}

TEST(TimerQueue, CancelsEachTimerOnceAndNoneThatWasTaken) {
  TimerQueue timers;
  const auto cancelled = timers.add(kStart, [] {});
  const auto taken = timers.add(kStart, [] {});
  EXPECT_TRUE(timers.cancel(cancelled));
  EXPECT_FALSE(timers.cancel(cancelled));
  EXPECT_TRUE(timers.take_due(kStart));
  EXPECT_FALSE(timers.cancel(taken));
  EXPECT_FALSE(timers.cancel(TimerId{}));
  EXPECT_EQ(timers.next(), std::nullopt);
}

TEST(TimerQueue, DoesAsASortedMapDoes) {
  const unsigned seed = 20260101;
  SCOPED_TRACE(seed);
  std::mt19937 random{seed};
  TimerQueue timers;
  std::map<std::pair<TimePoint, TimerId>, int> model;
  std::vector<std::pair<TimePoint, TimerId>> added;
  int ran = 0;
  TimePoint now = kStart;
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 4) {
      case 0:
      case 1: {
        const auto when = now + std::chrono::milliseconds{random() % 1000};
        added.emplace_back(when, timers.add(when, [&ran, step] { ran = step; }));
        model.emplace(added.back(), step);
        break;
      }
      case 2: {
        if (added.empty()) break;
        const auto& key = added[random() % added.size()];
        ASSERT_EQ(static_cast<bool>(timers.cancel(key.second)), model.erase(key) == 1);
        break;
      }
      default: {
        now += std::chrono::milliseconds{random() % 20};
        while (auto work = timers.take_due(now)) {
          work();
          ASSERT_FALSE(model.empty());
          ASSERT_EQ(ran, model.begin()->second);
          model.erase(model.begin());
        }
        break;
      }
    }
    ASSERT_EQ(timers.empty(), model.empty());
    if (!model.empty()) {
      ASSERT_EQ(timers.next(), model.begin()->first.first);
      ASSERT_TRUE(model.begin()->first.first > now || !timers.empty());
    }
  }
}

}  // namespace
}  // namespace pharos::async
