#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include <pharos/async/completion.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

class CompletionTest : public testing::Test {
 protected:
  Deadline in(Duration duration) { return Deadline::after(duration, executor_); }

  ManualExecutor executor_;
};

TEST_F(CompletionTest, WakesTheWaiterWithTheValue) {
  Completion<int> completion;
  Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
  EXPECT_FALSE(waiter.ended());
  EXPECT_TRUE(completion.complete(3));
  EXPECT_FALSE(waiter.ended()) << "resumed inside complete()";
  executor_.run_until_idle();
  EXPECT_EQ(waiter.value().value(), 3);
  EXPECT_EQ(executor_.next_timer(), std::nullopt);
}

TEST_F(CompletionTest, KeepsTheValueForAWaiterThatComesLater) {
  Completion<std::unique_ptr<int>> completion;
  completion.complete(std::make_unique<int>(5));
  Started<Result<std::unique_ptr<int>>> waiter{executor_, completion.wait(in(0s))};
  EXPECT_EQ(*waiter.value().value(), 5);
}

TEST_F(CompletionTest, OfNothingIsAnEvent) {
  Completion<void> completion;
  Started<Result<void>> waiter{executor_, completion.wait(in(1s))};
  completion.complete();
  executor_.run_until_idle();
  EXPECT_TRUE(waiter.value().ok());
}

TEST_F(CompletionTest, PassesAnErrorOn) {
  Completion<int> completion;
  Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
  completion.fail({ErrorCode::kUnavailable, "the peer is gone"});
  executor_.run_until_idle();
  EXPECT_EQ(waiter.value().error().code(), ErrorCode::kUnavailable);
}

TEST_F(CompletionTest, TheFirstOutcomeCounts) {
  Completion<int> completion;
  EXPECT_TRUE(completion.complete(1));
  EXPECT_FALSE(completion.complete(2));
  EXPECT_FALSE(completion.fail({ErrorCode::kInternal, "late"}));
  Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
  EXPECT_EQ(waiter.value().value(), 1);
}

TEST_F(CompletionTest, TheWaitEndsAtItsDeadline) {
  Completion<int> completion;
  Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
  executor_.advance(1s - 1ns);
  EXPECT_FALSE(waiter.ended());
  executor_.advance(1ns);
  EXPECT_EQ(waiter.value().error().code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(CompletionTest, CompletingAfterTheDeadlineIsHarmlessAndTheNextWaitFindsIt) {
  Completion<int> completion;
  {
    Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
    executor_.advance(1s);
    EXPECT_EQ(waiter.value().error().code(), ErrorCode::kDeadlineExceeded);
  }
  completion.complete(9);
  executor_.run_until_idle();
  Started<Result<int>> again{executor_, completion.wait(in(1s))};
  EXPECT_EQ(again.value().value(), 9);
}

TEST_F(CompletionTest, AValueThatComesTogetherWithTheDeadlineIsNotLost) {
  Completion<int> completion;
  Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
  // This timer is due at the same moment as the deadline. It runs after the deadline's own timer, and before the
  // waiting coroutine resumes.
  executor_.run_at(executor_.now() + 1s, [&] { completion.complete(4); });
  executor_.advance(1s);
  // The value must either be here or still be available to a second wait.
  if (waiter.value().ok()) {
    EXPECT_EQ(waiter.value().value(), 4);
  } else {
    Started<Result<int>> again{executor_, completion.wait(in(0s))};
    EXPECT_EQ(again.value().value(), 4);
  }
}

TEST_F(CompletionTest, OutlivesItsOwnerWhileACallbackHoldsIt) {
  Callback late;
  {
    Completion<int> completion;
    Started<Result<int>> waiter{executor_, completion.wait(in(1s))};
    late = [completion]() mutable { completion.complete(1); };
    executor_.advance(1s);
  }
  late();
  executor_.run_until_idle();
}

TEST_F(CompletionTest, ACancelledWaiterIsWokenAndMayNotWaitAgain) {
  Completion<int> completion;
  Started<Result<int>> waiter{executor_, completion.wait(in(1h))};
  waiter.cancel();
  EXPECT_EQ(waiter.value().error().code(), ErrorCode::kCancelled);
  completion.complete(1);
  executor_.run_until_idle();
}

Async<Result<void>> wait_for_the_outcome_twice(Completion<void> completion, Deadline deadline) {
  PHAROS_CO_TRY_VOID(co_await completion.wait(deadline));
  co_return co_await completion.wait(deadline);
}

TEST_F(CompletionTest, WaitingAgainAfterTheOutcomeWasTakenEndsTheProcess) {
  Completion<void> completion;
  completion.complete();
  EXPECT_DEATH((Started<Result<void>>{executor_, wait_for_the_outcome_twice(completion, in(1s))}), "check failed");
}

}  // namespace
}  // namespace pharos::async
