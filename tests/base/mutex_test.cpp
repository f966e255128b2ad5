#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <pharos/base/mutex.hpp>

namespace pharos {
namespace {

TEST(MutexTest, OneThreadAtATimeHoldsIt) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50'000;
  Mutex mutex;
  int sum = 0;  // not atomic: a lost addition shows that two threads held the mutex
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::lock_guard lock{mutex};
        ++sum;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kRounds);
}

TEST(MutexTest, TryLockRefusesAMutexThatIsLocked) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread{[&] { EXPECT_FALSE(mutex.try_lock()); }}.join();
  mutex.unlock();
  std::thread{[&] {
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  }}.join();
}

// The holder hands the mutex to threads that sleep, each of which wakes the next one. A wake-up that is lost leaves the
// test hanging.
TEST(MutexTest, EachThreadThatSleepsIsWoken) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    Mutex mutex;
    std::atomic<int> begun = 0;
    int held = 0;
    mutex.lock();
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        begun.fetch_add(1);
        const std::lock_guard lock{mutex};
        ++held;
      });
    }
    while (begun.load() != kThreads) std::this_thread::yield();
    EXPECT_EQ(held, 0);
    mutex.unlock();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(held, kThreads);
  }
}

}  // namespace
}  // namespace pharos
