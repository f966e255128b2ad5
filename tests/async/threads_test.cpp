#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/block_on.hpp>
#include <pharos/async/channel.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/async/thread_executor.hpp>

// Tests of operations across threads, for the thread sanitizer. Deadlines are so far away that reaching one
// is a failure.

namespace pharos::async {
namespace {

using namespace std::chrono_literals;

Deadline soon() {
  return Deadline::after(60s, SteadyClock{});
}

Async<int> sum_of(std::vector<Completion<int>> completions) {
  int sum = 0;
  for (auto& completion : completions) {
    auto value = co_await completion.wait(soon());
    sum += value.ok() ? *value : -1'000'000;
  }
  co_return sum;
}

TEST(Threads, CompletionsFromManyThreadsReachOneWaiter) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  ThreadExecutor executor{"waiter"};
  std::vector<Completion<int>> completions(kThreads * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, completions]() mutable {
      for (int i = 0; i < kEach; ++i) completions[static_cast<std::size_t>(i * kThreads + t)].complete(1);
    });
  }
  EXPECT_EQ(block_on(executor, sum_of(completions)), kThreads * kEach);
  for (auto& thread : threads) thread.join();
}

Async<int> count_outcomes(std::vector<Completion<int>> completions) {
  Executor& executor = co_await current_executor();
  int ended = 0;
  for (auto& completion : completions) {
    auto value = co_await completion.wait(Deadline::after(50us, executor));
    if (value.ok() || value.error().code() == ErrorCode::kDeadlineExceeded) ++ended;
  }
  co_return ended;
}

TEST(Threads, ACompletionThatRacesWithItsDeadlineEndsTheWaitOnce) {
  constexpr int kRaces = 500;
  ThreadExecutor executor{"waiter"};
  std::vector<Completion<int>> completions(kRaces);
  std::thread completer{[completions]() mutable {
    for (auto& completion : completions) completion.complete(1);
  }};
  EXPECT_EQ(block_on(executor, count_outcomes(completions)), kRaces);
  completer.join();
}

Async<void> produce(Channel<int>* channel, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    const auto sent = co_await channel->send(i, soon());
    EXPECT_TRUE(sent.ok());
  }
}

Async<void> consume(Channel<int>* channel, std::vector<int>* received) {
  while (true) {
    auto value = co_await channel->receive(soon());
    if (!value.ok()) {
      EXPECT_EQ(value.error().code(), ErrorCode::kCancelled);
      co_return;
    }
    received->push_back(*value);
  }
}

TEST(Threads, AChannelBetweenExecutorsLosesAndRepeatsNothing) {
  constexpr int kEach = 1000;
  ThreadExecutor producing{"producing"};
  ThreadExecutor consuming{"consuming"};
  Channel<int> channel{3};
  std::vector<int> received;
  AsyncGroup producers{producing};
  AsyncGroup consumers{consuming};
  for (int i = 0; i < 3; ++i) producers.spawn(produce(&channel, i * kEach, kEach));
  for (int i = 0; i < 2; ++i) consumers.spawn(consume(&channel, &received));
  EXPECT_TRUE(producers.join_blocking(soon()).ok());
  channel.close();
  EXPECT_TRUE(consumers.join_blocking(soon()).ok());
  std::sort(received.begin(), received.end());
  std::vector<int> expected(3 * kEach);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(received, expected);
}

Async<void> sleep_long(std::atomic<int>* cancelled) {
  const auto slept = co_await sleep(1h);
  if (!slept.ok()) ++*cancelled;
}

TEST(Threads, SpawnAndCancelFromAnyThreadLeaveNothingRunning) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  ThreadExecutor executor{"sleepers"};
  AsyncGroup group{executor};
  std::atomic<int> cancelled{0};
  std::latch spawned_some{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        group.spawn(sleep_long(&cancelled));
        if (i == kEach / 2) spawned_some.count_down();
      }
    });
  }
  spawned_some.wait();
  group.cancel();  // while the other half is being spawned
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(group.join_blocking(soon()).ok());
  EXPECT_EQ(cancelled, kThreads * kEach);
}

TEST(Threads, JoinBlockingEndsAtItsDeadline) {
  ThreadExecutor executor{"sleeper"};
  AsyncGroup group{executor};
  std::atomic<int> cancelled{0};
  group.spawn(sleep_long(&cancelled));
  const auto joined = group.join_blocking(Deadline::after(1ms, executor));
  EXPECT_EQ(joined.error().code(), ErrorCode::kDeadlineExceeded);
  group.cancel();
  EXPECT_TRUE(group.join_blocking(soon()).ok());
}

Async<Result<void>> join_from_elsewhere(AsyncGroup* group) {
  co_return co_await group->join(soon());
}

TEST(Threads, AGroupIsJoinedFromAnotherExecutor) {
  ThreadExecutor one{"one"};
  ThreadExecutor other{"other"};
  AsyncGroup group{one};
  std::atomic<int> cancelled{0};
  group.spawn(sleep_long(&cancelled));
  group.cancel();
  EXPECT_TRUE(block_on(other, join_from_elsewhere(&group)).ok());
  EXPECT_EQ(cancelled, 1);
}

Async<int> throw_a_number() {
  throw 7;
  co_return 0;
}

TEST(Threads, BlockOnThrowsWhatTheCoroutineThrows) {
  ThreadExecutor executor{"thrower"};
  EXPECT_THROW(block_on(executor, throw_a_number()), int);
}

}  // namespace
}  // namespace pharos::async
