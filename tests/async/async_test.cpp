#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include <pharos/async/async.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

Async<int> answer() {
  co_return 42;
}

Async<void> note(bool* ran) {
  *ran = true;
  co_return;
}

TEST(Async, BringsWhatTheCoroutineReturns) {
  ManualExecutor executor;
  Started<int> started{executor, answer()};
  EXPECT_EQ(started.value(), 42);
}

TEST(Async, DoesNotRunUntilItIsAwaited) {
  ManualExecutor executor;
  bool ran = false;
  { auto dropped = note(&ran); }
  executor.run_until_idle();
  EXPECT_FALSE(ran);
}

Async<int> hold(std::shared_ptr<int> held) {
  co_return *held;
}

TEST(Async, ADroppedOneFreesItsParameters) {
  const auto held = std::make_shared<int>(1);
  {
    auto dropped = hold(held);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

Async<std::unique_ptr<int>> move_only(std::unique_ptr<int> value) {
  co_return value;
}

TEST(Async, PassesMoveOnlyValuesThrough) {
  ManualExecutor executor;
  Started<std::unique_ptr<int>> started{executor, move_only(std::make_unique<int>(7))};
  EXPECT_EQ(*started.value(), 7);
}

Async<int> count_awaits(int times) {
  int sum = 0;
  for (int i = 0; i < times; ++i) sum += co_await answer();
  co_return sum / 42;
}

TEST(Async, AHundredThousandAwaitsInARowUseNoStack) {
  ManualExecutor executor;
  Started<int> started{executor, count_awaits(100'000)};
  EXPECT_EQ(started.value(), 100'000);
}

Async<int> depth(int left) {
  if (left == 0) co_return 0;
  co_return 1 + co_await depth(left - 1);
}

TEST(Async, AHundredThousandNestedAwaitsUseNoStack) {
  ManualExecutor executor;
  Started<int> started{executor, depth(100'000)};
  EXPECT_EQ(started.value(), 100'000);
}

Async<int> throws() {
  throw std::runtime_error{"from below"};
  co_return 0;
}

Async<int> passes_on() {
  co_return co_await throws();
}

Async<std::string> catches() {
  try {
    co_await passes_on();
  } catch (const std::runtime_error& error) {
    co_return error.what();
  }
  co_return "nothing";
}

TEST(Async, AnExceptionPassesToWhoeverAwaits) {
  ManualExecutor executor;
  Started<std::string> started{executor, catches()};
  EXPECT_EQ(started.value(), "from below");
}

Async<Result<int>> fails() {
  co_return Error{ErrorCode::kNotFound, "no such number"};
}

Async<Result<void>> fails_without_value() {
  co_return Error{ErrorCode::kOverloaded, "too many"};
}

Async<Result<int>> tries() {
  PHAROS_CO_TRY(const int number, co_await fails());
  co_return number + 1;
}

Async<Result<void>> tries_void() {
  PHAROS_CO_TRY_VOID(co_await fails_without_value());
  co_return {};
}

TEST(Async, AnErrorPassesThroughCoTry) {
  ManualExecutor executor;
  Started<Result<int>> with_value{executor, tries()};
  EXPECT_EQ(with_value.value().error().code(), ErrorCode::kNotFound);
  Started<Result<void>> without{executor, tries_void()};
  EXPECT_EQ(without.value().error().code(), ErrorCode::kOverloaded);
}

Async<Executor*> where() {
  Executor& executor = co_await current_executor();
  co_return &executor;
}

Async<Executor*> where_below() {
  co_return co_await where();
}

TEST(Async, KnowsTheExecutorThatItWasSpawnedOnAtEveryDepth) {
  ManualExecutor executor;
  Started<Executor*> started{executor, where_below()};
  EXPECT_EQ(started.value(), &executor);
}

struct Tracked {
  explicit Tracked(std::string* log, char name) : log_{log}, name_{name} {}
  Tracked(Tracked&& other) noexcept : log_{std::exchange(other.log_, nullptr)}, name_{other.name_} {}
  ~Tracked() {
    if (log_ != nullptr) *log_ += name_;
  }

 private:
  std::string* log_;
  char name_;
};

Async<int> inner(Tracked) {
  co_return 1;
}

Async<int> outer(std::string* log) {
  Tracked local{log, 'l'};
  const int one = co_await inner(Tracked{log, 'p'});
  *log += '.';
  co_return one;
}

TEST(Async, AChildsFrameIsGoneBeforeTheStatementAfterTheAwait) {
  ManualExecutor executor;
  std::string log;
  Started<int> started{executor, outer(&log)};
  EXPECT_EQ(log, "p.l");
}

Async<int> await_twice() {
  auto once = answer();
  const int first = co_await std::move(once);
  co_return first + co_await std::move(once);
}

TEST(AsyncDeathTest, AwaitingTwiceIsABug) {
  ManualExecutor executor;
  EXPECT_DEATH((Started<int>{executor, await_twice()}), "check failed");
}

}  // namespace
}  // namespace pharos::async
