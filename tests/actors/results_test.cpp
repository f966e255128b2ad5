#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::results {
namespace {

using namespace std::chrono_literals;

class Echo {
 public:
  std::string back(std::string text) { return text; }
  int number(int value) { return value; }
  std::string made(std::uint64_t size) { return std::string(size, 'm'); }
  int after(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds{ms});
    return ms;
  }
};

Deadline in(Duration time) {
  return Deadline::in(time);
}

using ResultsTest = ClusterTest;

// Their memory goes from thread to thread, and is used again: threads begin and end, and each lets go of results that
// others have made.
TEST_F(ResultsTest, ThreadsMakeResultsAndOthersLetGoOfThem) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  std::mutex mutex;
  std::vector<std::pair<int, Ref<int>>> made;
  const auto work = [&](int thread) {
    for (int i = 0; i < 3000; ++i) {
      const int number = 3000 * thread + i;
      auto ref = echo.call<&Echo::number>(number);
      std::pair<int, Ref<int>> other{number, ref};
      {
        const std::lock_guard lock{mutex};
        made.emplace_back(number, std::move(ref));
        std::swap(made[(static_cast<std::size_t>(number) * 7919) % made.size()], other);
      }
      if (i % 50 == 0) {
        EXPECT_EQ(other.second.get(), other.first);
      }
    }
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) threads.emplace_back(work, 4 * round + thread);
  }
  for (const auto& [number, ref] : made) ASSERT_EQ(ref.get(), number);
}

TEST_F(ResultsTest, ManyResultsCanBeHadInAnyOrder) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  std::vector<std::pair<int, Ref<int>>> results;
  for (int i = 0; i < 5000; ++i) results.emplace_back(i, echo.call<&Echo::number>(i));
  std::shuffle(results.begin(), results.end(), std::mt19937{7});
  for (const auto& [number, result] : results) ASSERT_EQ(result.get(), number);
}

TEST_F(ResultsTest, AHundredThousandCallsMayBeUnderWayAtOnce) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  std::vector<Ref<int>> results;
  for (int i = 0; i < 100'000; ++i) results.push_back(echo.call<&Echo::number>(i));
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(results[static_cast<std::size_t>(i)].get(), i);
}

TEST_F(ResultsTest, ResultsThatNobodyWantsDoNoHarm) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  for (int i = 0; i < 20'000; ++i) [[maybe_unused]] const auto dropped = echo.call<&Echo::number>(i);
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
}

TEST_F(ResultsTest, AResultMayBeHadMoreThanOnceAndByManyThreads) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  const auto result = echo.call<&Echo::after>(50);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { right += result.get() == 50; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(result.get(), 50);
}

TEST_F(ResultsTest, StringsUpToEightMebibytesComeBackAsTheyWere) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  for (std::size_t size = 64 << 10; size <= 8 << 20; size *= 2) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 1000) text[i] = static_cast<char>('a' + i / 1000 % 26);
    ASSERT_EQ(echo.call<&Echo::back>(text).get(), text) << size;
  }
}

TEST_F(ResultsTest, StringsAroundTheReceiveBuffersSizeComeBackAsTheyWere) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  for (const int around : {48, 256, 12 << 10, 32 << 10, 64 << 10, 128 << 10}) {
    for (int off = -80; off <= 16; off += 8) {
      const std::string text(static_cast<std::size_t>(std::max(around + off, 0)), 'y');
      ASSERT_EQ(echo.call<&Echo::back>(text).get(), text) << text.size();
    }
  }
}

TEST_F(ResultsTest, ManyLargeStringsMayBeUnderWayAtOnce) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  std::vector<Ref<std::string>> results;
  for (int i = 0; i < 100; ++i) {
    results.push_back(echo.call<&Echo::back>(std::string(1 << 20, static_cast<char>('a' + i % 26))));
  }
  for (int i = 0; i < 100; ++i) {
    const std::string text = results[static_cast<std::size_t>(i)].get();
    ASSERT_EQ(text.size(), std::size_t{1} << 20);
    ASSERT_EQ(text.back(), static_cast<char>('a' + i % 26));
  }
}

TEST_F(ResultsTest, AResultOfAHundredMebibytesTravels) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  const std::string text = echo.call<&Echo::made>(std::uint64_t{100} << 20).get();
  EXPECT_EQ(text.size(), std::size_t{100} << 20);
  EXPECT_EQ(text.find_first_not_of('m'), std::string::npos);
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
}

TEST_F(ResultsTest, AnArgumentOfMoreThanTheStoreHasIsATypedErrorAndTheActorGoesOn) {
  Runtime runtime{{.object_store = 128_MiB}};
  const auto echo = runtime.spawn<Echo>();
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
  {
    const std::string text(std::size_t{1} << 28, 'z');
    EXPECT_SAYS(message_of<Exhausted>([&] { echo.call<&Echo::back>(text).get(); }), "of 128 MiB");
  }
  EXPECT_EQ(echo.call<&Echo::number>(2).get(), 2);
}

TEST_F(ResultsTest, AResultOfMoreThanTheStoreHasIsATypedErrorAndTheActorGoesOn) {
  Runtime runtime{{.object_store = 128_MiB}};
  const auto echo = runtime.spawn<Echo>();
  EXPECT_SAYS(message_of<Exhausted>([&] { echo.call<&Echo::made>(std::uint64_t{1} << 28).get(); }), "of 128 MiB");
  EXPECT_EQ(echo.call<&Echo::number>(2).get(), 2);
}

TEST_F(ResultsTest, GetWithADeadlineThrowsAndALaterGetStillGivesTheValue) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
  const auto result = echo.call<&Echo::after>(1500);
  const auto waited = time_of([&] { message_of<DeadlineExceeded>([&] { result.get(in(50ms)); }); });
  EXPECT_GE(waited, 50ms);
  EXPECT_LT(waited, 1200ms);
  EXPECT_EQ(result.get(), 1500);
  EXPECT_EQ(result.get(in(0ms)), 1500);
}

TEST_F(ResultsTest, ADeadlineThatHasPassedStillGivesWhatIsThere) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  const auto result = echo.call<&Echo::number>(4);
  EXPECT_TRUE(eventually([&] { return result.ready(); }));
  EXPECT_EQ(result.get(in(-1s)), 4);
}

TEST_F(ResultsTest, ThreadsWithDeadlinesWaitBesideOneThatLeads) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
  const auto slow = echo.call<&Echo::after>(1500);
  std::vector<std::thread> threads;
  std::atomic<int> timed_out = 0;
  threads.emplace_back([&] { EXPECT_EQ(slow.get(), 1500); });
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto waited = time_of([&] { timed_out += !slow.try_get(in(100ms)).ok(); });
      EXPECT_LT(waited, 1200ms);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(timed_out, 4);
}

TEST_F(ResultsTest, TryGetGivesTheErrorWithoutThrowing) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  EXPECT_EQ(echo.call<&Echo::number>(5).try_get().value(), 5);
  const auto late = echo.call<&Echo::after>(200).try_get(in(10ms));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), ErrorCode::kDeadlineExceeded);
  echo.kill();
  const auto dead = echo.call<&Echo::number>(5).try_get();
  ASSERT_FALSE(dead.ok());
  EXPECT_EQ(dead.error().code(), ErrorCode::kActorDied);
  EXPECT_EQ(dead.error().outcome(), Outcome::kNotStarted);
}

TEST_F(ResultsTest, AResultBecomesReadyWithoutAnybodyWaitingForIt) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  std::vector<Ref<int>> results;
  for (int i = 0; i < 10; ++i) results.push_back(echo.call<&Echo::number>(i));
  for (const auto& result : results) EXPECT_TRUE(eventually([&] { return result.ready(); }));
}

TEST_F(ResultsTest, AReplyDoesNotWaitForASlowCallBehindIt) {
  Runtime runtime;
  const auto echo = runtime.spawn<Echo>();
  EXPECT_EQ(echo.call<&Echo::number>(1).get(), 1);
  const auto fast = echo.call<&Echo::number>(2);
  const auto slow = echo.call<&Echo::after>(1500);
  EXPECT_LT(time_of([&] { EXPECT_EQ(fast.get(), 2); }), 1200ms);
  EXPECT_EQ(slow.get(), 1500);
}

}  // namespace
}  // namespace pharos::cluster::results
