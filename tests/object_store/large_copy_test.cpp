#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <pharos/object_store/large_copy.hpp>

#include "seed.hpp"

namespace pharos::object_store {
namespace {

using LargeCopyTest = SeededTest;

bool never_busy() {
  return false;
}

TEST_F(LargeCopyTest, CopiesEveryByteAndNoOther) {
  for (int i = 0; i < 300; ++i) {
    const std::size_t count = i < 100 ? static_cast<std::size_t>(i) : between(0, 5000);
    const std::size_t source_at = between(0, 70);
    const std::size_t target_at = between(0, 70);
    const auto source = bytes(count + 100);
    std::vector<std::byte> target(count + 200, std::byte{0xAB});
    copy_streaming(target.data() + target_at, source.data() + source_at, count);
    for (std::size_t at = 0; at < target.size(); ++at) {
      const bool copied = at >= target_at && at < target_at + count;
      ASSERT_EQ(target[at], copied ? source[source_at + at - target_at] : std::byte{0xAB}) << count << " at " << at;
    }
  }
}

TEST_F(LargeCopyTest, EachPieceIsDoneOnceWhenRunReturns) {
  SpareCore spare_core{&never_busy};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::atomic<int>> done(between(0, 40));
    spare_core.run(done.size(), [&](std::size_t piece) { ++done[piece]; });
    for (const auto& each : done) ASSERT_EQ(each.load(), 1);
  }
}

TEST_F(LargeCopyTest, TheOtherThreadTakesPart) {
  SpareCore spare_core{&never_busy};
  std::mutex mutex;
  std::condition_variable changed;
  int come = 0;
  std::set<std::thread::id> threads;
  spare_core.run(2, [&](std::size_t) {
    std::unique_lock lock{mutex};
    ++come;
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds{10}, [&] { return come == 2; }));
  });
  EXPECT_EQ(threads.size(), 2U);
}

TEST_F(LargeCopyTest, ThreadsThatComeMeanwhileWorkAlone) {
  SpareCore spare_core{&never_busy};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&spare_core] {
      for (int round = 0; round < 300; ++round) {
        std::vector<std::atomic<int>> done(20);
        spare_core.run(done.size(), [&](std::size_t piece) { ++done[piece]; });
        for (const auto& each : done) ASSERT_EQ(each.load(), 1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(LargeCopyTest, AChildOfForkWorksAloneAndEnds) {
  auto spare_core = std::make_unique<SpareCore>(&never_busy);
  for (int round = 0; round < 100; ++round) spare_core->run(10, [](std::size_t) {});
  const pid_t child = ::fork();
  if (child == 0) {
    int done = 0;
    spare_core->run(10, [&](std::size_t) { ++done; });
    spare_core.reset();
    ::_exit(done);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 10);
}

}  // namespace
}  // namespace pharos::object_store
