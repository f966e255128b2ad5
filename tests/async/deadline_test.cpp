#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

#include <pharos/async/deadline.hpp>
#include <pharos/async/manual_executor.hpp>

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

TEST(Deadline, IsExpiredFromItsMomentOn) {
  const auto deadline = Deadline::after(5s, kNow);
  EXPECT_FALSE(deadline.expired(kNow + 5s - 1ns));
  EXPECT_TRUE(deadline.expired(kNow + 5s));
  EXPECT_EQ(deadline, Deadline::at(kNow + 5s));
}

TEST(Deadline, WhatIsLeftNeverGoesBelowZero) {
  const auto deadline = Deadline::after(5s, kNow);
  EXPECT_EQ(deadline.left(kNow + 2s), 3s);
  EXPECT_EQ(deadline.left(kNow + 9s), 0s);
}

TEST(Deadline, NeverDoesNotExpire) {
  EXPECT_FALSE(Deadline::never().expired(TimePoint::max()));
  EXPECT_EQ(Deadline::never().left(kNow), Duration::max());
}

TEST(Deadline, AVeryLongTimeIsNeverAndNotThePast) {
  EXPECT_TRUE(Deadline::after(Duration::max(), kNow).is_never());
  EXPECT_TRUE(Deadline::after(Duration::max() - 1min, kNow).is_never());
}

TEST(Deadline, AnyDurationMakesOne) {
  using Seconds = std::chrono::duration<double>;
  const auto left = [](const auto& duration) {
    const TimePoint before = std::chrono::steady_clock::now();
    return Deadline::in(duration).left(before);
  };
  EXPECT_GE(left(Seconds{2.5}), 2500ms);
  EXPECT_LT(left(Seconds{2.5}), 100s);
  EXPECT_GE(left(std::chrono::duration<float, std::ratio<60>>{2}), 2min);
  EXPECT_GE(left(std::chrono::duration<std::int8_t, std::milli>{100}), 100ms);
  EXPECT_TRUE(Deadline::in(std::chrono::hours::max()).is_never());
  EXPECT_TRUE(Deadline::in(Seconds{1e300}).is_never());
  EXPECT_TRUE(Deadline::in(Seconds{std::numeric_limits<double>::infinity()}).is_never());
  for (const Seconds past : {Seconds{-1e300}, Seconds{-1}, Seconds{std::numeric_limits<double>::quiet_NaN()}})
    EXPECT_TRUE(Deadline::in(past).expired(std::chrono::steady_clock::now())) << past.count();
}

TEST(Deadline, AVeryNegativeTimeHasExpired) {
  EXPECT_TRUE(Deadline::after(Duration::min(), kNow).expired(kNow));
  EXPECT_TRUE(Deadline::after(Duration::min(), TimePoint{-1h}).expired(TimePoint{-1h}));
}

TEST(Deadline, WhatIsLeftSaturatesForClocksThatStartBelowZero) {
  const auto late = Deadline::at(TimePoint::max() - 1ns);
  EXPECT_EQ(late.left(TimePoint::min()), Duration::max());
}

TEST(Deadline, TheEarlierIsTheSmaller) {
  const auto soon = Deadline::after(1s, kNow);
  const auto late = Deadline::after(2s, kNow);
  EXPECT_EQ(std::min(late, soon), soon);
  EXPECT_EQ(std::min(Deadline::never(), late), late);
}

TEST(Deadline, AnExecutorIsTheClockItIsMadeFrom) {
  ManualExecutor executor;
  const auto deadline = Deadline::after(5s, executor);
  executor.advance(2s);
  EXPECT_EQ(deadline.left(executor.now()), 3s);
}

}  // namespace
}  // namespace pharos::async
