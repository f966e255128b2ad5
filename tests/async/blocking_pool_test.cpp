#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/async/thread_executor.hpp>

#include "started.hpp"

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

/// Keeps a pool's only thread busy until it goes out of scope.
class Occupied {
 public:
  explicit Occupied(BlockingPool& pool) {
    const auto submitted = pool.submit([this](BlockingPool::Turn) {
      begun_.count_down();
      released_.wait();
      ended_.count_down();
    });
    PHAROS_CHECK(submitted.ok());
    begun_.wait();
  }
  ~Occupied() {
    released_.count_down();
    ended_.wait();
  }

 private:
  std::latch begun_{1};
  std::latch released_{1};
  std::latch ended_{1};
};

Async<std::pair<std::thread::id, std::thread::id>> threads_of(BlockingPool* pool) {
  auto there = co_await run_blocking(
      *pool, [] { return std::this_thread::get_id(); }, Deadline::never());
  co_return std::pair{there.value(), std::this_thread::get_id()};
}

Async<std::thread::id> own_thread() {
  co_return std::this_thread::get_id();
}

TEST(BlockingPool, RunsTheFunctionElsewhereAndTheCoroutineGoesOnOnItsExecutor) {
  BlockingPool pool{1, 1};
  ThreadExecutor executor{"test"};
  const auto [there, here] = block_on(executor, threads_of(&pool));
  EXPECT_NE(there, here);
  EXPECT_EQ(here, block_on(executor, own_thread()));
}

TEST(BlockingPool, BringsWhatTheFunctionReturns) {
  BlockingPool pool{2, 2};
  ThreadExecutor executor{"test"};
  const auto number = block_on(executor, run_blocking(
                                             pool, [] { return 42; }, Deadline::never()));
  EXPECT_EQ(number.value(), 42);
  const auto nothing = block_on(executor, run_blocking(
                                              pool, [] {}, Deadline::never()));
  EXPECT_TRUE(nothing.ok());
  const auto owned = block_on(
      executor, run_blocking(
                    pool, [n = std::make_unique<int>(7)]() mutable { return std::move(n); }, Deadline::never()));
  EXPECT_EQ(**owned, 7);
}

TEST(BlockingPool, AResultComesAsItIs) {
  BlockingPool pool{1, 1};
  ThreadExecutor executor{"test"};
  const Result<int> failed = block_on(executor, run_blocking(
                                                    pool,
                                                    []() -> Result<int> {
                                                      return Error{ErrorCode::kCorrupt, "bad block"};
                                                    },
                                                    Deadline::never()));
  EXPECT_EQ(failed.error().code(), ErrorCode::kCorrupt);
}

TEST(BlockingPool, WhatTheFunctionThrowsIsThrownToTheAwaiter) {
  BlockingPool pool{1, 1};
  ThreadExecutor executor{"test"};
  EXPECT_THROW(block_on(executor, run_blocking(
                                      pool, []() -> int { throw std::out_of_range{"far"}; }, Deadline::never()))
                   .ok(),
               std::out_of_range);
}

TEST(BlockingPool, AFullQueueIsRefusedAndTheFunctionDoesNotRun) {
  BlockingPool pool{1, 1};
  ManualExecutor executor;
  Occupied occupied{pool};
  auto ran = std::make_shared<bool>(false);
  EXPECT_TRUE(pool.submit([](BlockingPool::Turn) {}).ok());
  Started<Result<void>> refused{executor, run_blocking(
                                              pool, [ran] { *ran = true; }, Deadline::never())};
  EXPECT_EQ(refused.value().error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(refused.value().error().outcome(), Outcome::kNotStarted);
  EXPECT_FALSE(*ran);
}

TEST(BlockingPool, WhatDidNotStartByTheDeadlineNeverRuns) {
  auto ran = std::make_shared<bool>(false);
  {
    BlockingPool pool{1, 1};
    ManualExecutor executor;
    Occupied occupied{pool};
    Started<Result<void>> late{executor, run_blocking(
                                             pool, [ran] { *ran = true; }, Deadline::after(1s, executor))};
    executor.advance(1s);
    EXPECT_EQ(late.value().error().code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(late.value().error().outcome(), Outcome::kNotStarted);
  }
  EXPECT_FALSE(*ran);
}

TEST(BlockingPool, WhatRunsPastTheDeadlineGoesOnWithoutItsCaller) {
  std::latch begun{1};
  std::latch released{1};
  bool finished = false;
  {
    BlockingPool pool{1, 1};
    ManualExecutor executor;
    Started<Result<void>> late{executor, run_blocking(
                                             pool,
                                             [&] {
                                               begun.count_down();
                                               released.wait();
                                               finished = true;
                                             },
                                             Deadline::after(1s, executor))};
    begun.wait();
    executor.advance(1s);
    EXPECT_EQ(late.value().error().code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(late.value().error().outcome(), Outcome::kUnknown);
    released.count_down();
  }
  EXPECT_TRUE(finished) << "the pool's destructor waits for what runs";
}

TEST(BlockingPool, ACancelledCoroutineDoesNotWaitForTheThread) {
  BlockingPool pool{1, 1};
  ManualExecutor executor;
  Occupied occupied{pool};
  Started<Result<void>> waiting{executor, run_blocking(
                                              pool, [] {}, Deadline::never())};
  waiting.cancel();
  EXPECT_EQ(waiting.value().error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(waiting.value().error().outcome(), Outcome::kNotStarted);
}

TEST(BlockingPool, ItsDestructorRefusesWhatIsQueued) {
  std::optional<BlockingPool> pool{std::in_place, 1u, 1u};
  std::latch begun{1};
  std::latch released{1};
  ASSERT_TRUE(pool->submit([&](BlockingPool::Turn) {
                    begun.count_down();
                    released.wait();
                  })
                  .ok());
  begun.wait();
  std::optional<BlockingPool::Turn> queued;
  ASSERT_TRUE(pool->submit([&](BlockingPool::Turn turn) {
                    queued = turn;
                    released.count_down();
                  })
                  .ok());
  pool.reset();
  EXPECT_EQ(queued, BlockingPool::Turn::kRefused);
}

TEST(BlockingPool, ACoroutineWhoseWorkIsRefusedIsToldThatItNeverRan) {
  ThreadExecutor executor{"test"};
  AsyncGroup group{executor};
  std::optional<BlockingPool> pool{std::in_place, 1u, 1u};
  std::optional<Occupied> occupied{std::in_place, *pool};
  std::optional<Result<int>> outcome;
  group.spawn(detail::keep(run_blocking(
                               *pool, [] { return 1; }, Deadline::never()),
                           &outcome));
  std::latch queued{1};
  executor.post([&] { queued.count_down(); });
  queued.wait();
  std::thread destroyer{[&] { pool.reset(); }};
  EXPECT_TRUE(group.join_blocking(Deadline::after(60s, executor)).ok());
  occupied.reset();
  destroyer.join();
  EXPECT_EQ(outcome->error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(outcome->error().outcome(), Outcome::kNotStarted);
}

}  // namespace
}  // namespace pharos::async
