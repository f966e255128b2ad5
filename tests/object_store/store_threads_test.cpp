// The protocol as threads on one mapping, because the thread sanitizer does not see other processes.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "plain_store.hpp"
#include "seed.hpp"

namespace pharos::object_store {
namespace {

using StoreThreadsTest = SeededTest;

TEST_F(StoreThreadsTest, NobodyWritesWhereSomebodyReads) {
  constexpr int kReaders = 3;
  constexpr std::uint64_t kObjects = 2000;
  constexpr std::size_t kBytes = 2048;  // of slots that are all of the smallest size: they are used again at once
  PlainStore store{64_MiB};
  // What readers may look for: the newest object, and one that has just ended.
  struct Shown {
    std::mutex mutex;
    Location location;
    std::uint64_t number = 0;
  };
  std::array<Shown, 4> shown;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> refused = 0;
  std::vector<std::thread> threads;
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r, seed = random_()] {
      std::mt19937_64 random{seed};
      const auto process = store.start(CallerId{100 + static_cast<std::uint64_t>(r)});
      std::vector<std::pair<std::shared_ptr<Object>, std::uint64_t>> kept;
      while (!done.load()) {
        Shown& place = shown[random() % shown.size()];
        std::unique_lock lock{place.mutex};
        const auto [location, number] = std::pair{place.location, place.number};
        lock.unlock();
        if (number == 0) continue;
        auto object = process.lessee->borrow(location);
        if (object) {
          kept.emplace_back(*std::move(object), number);
          ++reads;
        } else {
          ++refused;
        }
        if (kept.size() > 3) {
          for (const auto& [each, its] : kept) ASSERT_TRUE(holds(each->bytes(), its));
          kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(1 + random() % kept.size()));
        }
      }
    });
  }
  for (std::uint64_t w = 0; w < 2; ++w) {
    threads.emplace_back([&, w, seed = random_()] {
      std::mt19937_64 random{seed};
      const auto process = store.start(CallerId{1 + w});
      std::vector<std::shared_ptr<Object>> held(shown.size());
      // Until the readers have seen enough: on a busy machine they may come late.
      for (std::uint64_t i = 1; i <= kObjects || (reads.load() < kObjects && i < 1000 * kObjects); ++i) {
        const std::uint64_t number = (i << 32) + (w << 60);
        auto object = put(*process.lessee, kBytes, number);
        ASSERT_NE(object, nullptr);
        const std::size_t where = random() % shown.size();
        {
          const std::lock_guard lock{shown[where].mutex};
          shown[where].location = object->location();
          shown[where].number = number;
        }
        held[where] = std::move(object);
      }
      if (w == 1) done.store(true);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GE(reads.load(), 1);
}

}  // namespace
}  // namespace pharos::object_store
