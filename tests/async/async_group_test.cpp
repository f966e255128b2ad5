#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

Async<void> write(std::string* log, char name) {
  *log += name;
  co_return;
}

Async<void> nap(Duration duration, std::string* log) {
  const auto slept = co_await sleep(duration);
  *log += slept.ok() ? 's' : 'c';
}

class AsyncGroupTest : public testing::Test {
 protected:
  Deadline in(Duration duration) { return Deadline::after(duration, executor_); }

  ManualExecutor executor_;
  std::string log_;
};

TEST_F(AsyncGroupTest, RunsWhatIsSpawnedInOrderAndNotInsideSpawn) {
  AsyncGroup group{executor_};
  group.spawn(write(&log_, 'a'));
  group.spawn(write(&log_, 'b'));
  EXPECT_EQ(log_, "");
  EXPECT_EQ(group.size(), 2u);
  executor_.run_until_idle();
  EXPECT_EQ(log_, "ab");
  EXPECT_EQ(group.size(), 0u);
}

TEST_F(AsyncGroupTest, JoinOfAnEmptyGroupSucceedsAtOnce) {
  AsyncGroup group{executor_};
  Started<Result<void>> joined{executor_, group.join(in(0s))};
  EXPECT_TRUE(joined.value().ok());
}

TEST_F(AsyncGroupTest, JoinWaitsForTheLast) {
  AsyncGroup group{executor_};
  group.spawn(nap(1s, &log_));
  group.spawn(nap(2s, &log_));
  Started<Result<void>> joined{executor_, group.join(in(1h))};
  executor_.advance(1s);
  EXPECT_FALSE(joined.ended());
  executor_.advance(1s);
  EXPECT_TRUE(joined.value().ok());
  EXPECT_EQ(log_, "ss");
}

TEST_F(AsyncGroupTest, JoinThatIsTooShortSaysHowManyAreLeft) {
  AsyncGroup group{executor_};
  group.spawn(nap(1h, &log_));
  Started<Result<void>> joined{executor_, group.join(in(1s))};
  executor_.advance(1s);
  EXPECT_EQ(joined.value().error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(joined.value().error().message().find("1 of its coroutines"), std::string::npos);
  group.cancel();
  executor_.run_until_idle();
}

TEST_F(AsyncGroupTest, JoinEndsOnlyWhenTheFramesAreGone) {
  AsyncGroup group{executor_};
  struct Slow {
    std::string* log;
    ~Slow() { *log += 'd'; }
  };
  struct Body {
    static Async<void> run(std::shared_ptr<Slow>) { co_return; }
    static Async<void> join(AsyncGroup* group, Deadline deadline, std::string* log) {
      const auto joined = co_await group->join(deadline);
      *log += joined.ok() ? 'j' : 'x';
    }
  };
  AsyncGroup joiners{executor_};
  group.spawn(Body::run(std::make_shared<Slow>(Slow{&log_})));
  log_.clear();  // removes the entry of the temporary Slow
  joiners.spawn(Body::join(&group, in(1s), &log_));
  executor_.run_until_idle();
  EXPECT_EQ(log_, "dj");
}

TEST_F(AsyncGroupTest, CancelEndsEveryWaitWithoutLettingTimePass) {
  AsyncGroup group{executor_};
  group.spawn(nap(1h, &log_));
  group.spawn(nap(2h, &log_));
  executor_.run_until_idle();
  group.cancel();
  group.cancel();
  executor_.run_until_idle();
  EXPECT_EQ(log_, "cc");
  EXPECT_EQ(group.size(), 0u);
}

TEST_F(AsyncGroupTest, WhatIsSpawnedAfterCancelRunsAndFindsEachWaitEnded) {
  AsyncGroup group{executor_};
  group.cancel();
  group.spawn(nap(1h, &log_));
  executor_.run_until_idle();
  EXPECT_EQ(log_, "c");
}

Async<void> wait_stubbornly(std::string* log) {
  Completion<int> never;
  for (int i = 0; i < 3; ++i) {
    const auto got = co_await never.wait(Deadline::never());
    *log += got.error().code() == ErrorCode::kCancelled ? 'c' : 'x';
  }
}

TEST_F(AsyncGroupTest, EveryLaterWaitOfACancelledCoroutineEndsToo) {
  AsyncGroup group{executor_};
  group.spawn(wait_stubbornly(&log_));
  executor_.run_until_idle();
  EXPECT_EQ(log_, "");
  group.cancel();
  executor_.run_until_idle();
  EXPECT_EQ(log_, "ccc");
}

Async<void> work_until_cancelled(AsyncGroup* own, std::string* log) {
  for (bool stop = false; !stop; stop = co_await cancelled()) {
    *log += 'w';
    if (log->size() == 3) own->cancel();
  }
}

TEST_F(AsyncGroupTest, ACoroutineThatNeverWaitsCanAskWhetherItIsCancelled) {
  AsyncGroup group{executor_};
  group.spawn(work_until_cancelled(&group, &log_));
  executor_.run_until_idle();
  EXPECT_EQ(log_, "www");
}

Async<void> own_a_group(Duration each, std::string* log) {
  Executor& executor = co_await current_executor();
  AsyncGroup children{executor};
  children.spawn(nap(each, log));
  const auto slept = co_await sleep(each * 2);
  if (!slept.ok()) children.cancel();
  const auto joined = co_await children.join(Deadline::after(1s, executor));
  *log += joined.ok() ? 'j' : 'x';
}

TEST_F(AsyncGroupTest, ACancelledCoroutineStillJoinsItsOwnGroup) {
  AsyncGroup group{executor_};
  group.spawn(own_a_group(1h, &log_));
  executor_.run_until_idle();
  group.cancel();
  executor_.run_until_idle();
  EXPECT_EQ(log_, "cj");
}

TEST_F(AsyncGroupTest, CancellingOneGroupLeavesAnotherAlone) {
  AsyncGroup one{executor_};
  AsyncGroup other{executor_};
  one.spawn(nap(1s, &log_));
  other.spawn(nap(1s, &log_));
  executor_.run_until_idle();
  one.cancel();
  executor_.run_until_idle();
  EXPECT_EQ(log_, "c");
  executor_.advance(1s);
  EXPECT_EQ(log_, "cs");
}

Async<void> spawn_more(AsyncGroup* group, int left, std::string* log) {
  *log += static_cast<char>('0' + left);
  if (left > 0) group->spawn(spawn_more(group, left - 1, log));
  co_return;
}

TEST_F(AsyncGroupTest, AMemberMaySpawnIntoItsOwnGroup) {
  AsyncGroup group{executor_};
  group.spawn(spawn_more(&group, 3, &log_));
  Started<Result<void>> joined{executor_, group.join(in(1s))};
  EXPECT_TRUE(joined.value().ok());
  EXPECT_EQ(log_, "3210");
}

Async<void> fail_with(std::string what) {
  throw std::runtime_error{what};
  co_return;
}

TEST_F(AsyncGroupTest, AnExceptionGoesToOnErrorAndTheGroupGoesOn) {
  AsyncGroup group{executor_, [this](std::exception_ptr exception) {
                     try {
                       std::rethrow_exception(std::move(exception));
                     } catch (const std::runtime_error& error) {
                       log_ += error.what();
                     }
                   }};
  group.spawn(fail_with("first;"));
  group.spawn(fail_with("second;"));
  group.spawn(write(&log_, 'a'));
  executor_.run_until_idle();
  EXPECT_EQ(log_, "first;second;a");
}

TEST_F(AsyncGroupTest, AnExceptionWithoutOnErrorEndsTheProcessAndSaysWhatItWas) {
  AsyncGroup group{executor_};
  const auto spawn_and_run = [&] {
    group.spawn(fail_with("the disk is on fire"));
    executor_.run_until_idle();
  };
  EXPECT_DEATH(spawn_and_run(), "exception_left_a_spawned_coroutine(.|\n)*the disk is on fire");
}

TEST_F(AsyncGroupTest, DestroyingOneThatIsNotJoinedEndsTheProcessAndSaysHowManyAreLeft) {
  const auto forget_to_join = [&] {
    AsyncGroup group{executor_};
    group.spawn(nap(1h, &log_));
    executor_.run_until_idle();
  };
  EXPECT_DEATH(forget_to_join(), "coroutines_left = 1");
}

}  // namespace
}  // namespace pharos::async
