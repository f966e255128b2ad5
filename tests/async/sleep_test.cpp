#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include <pharos/async/sleep.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

TEST(Sleep, EndsWhenItsTimeHasPassedAndNotBefore) {
  ManualExecutor executor;
  Started<Result<void>> sleeper{executor, sleep(5s)};
  executor.advance(5s - 1ns);
  EXPECT_FALSE(sleeper.ended());
  executor.advance(1ns);
  ASSERT_TRUE(sleeper.ended());
  EXPECT_TRUE(sleeper.value().ok());
}

TEST(Sleep, UntilAMomentThatHasPassedEndsSoon) {
  ManualExecutor executor;
  Started<Result<void>> sleeper{executor, sleep_until(executor.now() - 1s)};
  ASSERT_TRUE(sleeper.ended());
  EXPECT_TRUE(sleeper.value().ok());
}

TEST(Sleep, ACancelledSleeperWakesAtOnceAndLeavesNoTimerBehind) {
  ManualExecutor executor;
  Started<Result<void>> sleeper{executor, sleep(1h)};
  sleeper.cancel();
  ASSERT_TRUE(sleeper.ended());
  EXPECT_EQ(sleeper.value().error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(executor.next_timer(), std::nullopt);
}

Async<Result<void>> write_and_sleep(std::string* log, char name) {
  for (int i = 0; i < 2; ++i) {
    *log += name;
    PHAROS_CO_TRY_VOID(co_await sleep(0s));
  }
  co_return {};
}

TEST(Sleep, OfZeroLetsOthersRunFirst) {
  ManualExecutor executor;
  std::string log;
  AsyncGroup group{executor};
  std::optional<Result<void>> a;
  std::optional<Result<void>> b;
  group.spawn(detail::keep(write_and_sleep(&log, 'a'), &a));
  group.spawn(detail::keep(write_and_sleep(&log, 'b'), &b));
  executor.run_until_idle();
  EXPECT_EQ(log, "abab");
}

}  // namespace
}  // namespace pharos::async
