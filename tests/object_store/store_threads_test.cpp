// Runs the protocol with threads on one mapping, because the thread sanitizer does not see other processes.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <thread>

#include "plain_store.hpp"
#include "seed.hpp"

namespace pharos::object_store {
namespace {

using StoreThreadsTest = SeededTest;

TEST_F(StoreThreadsTest, NobodyWritesWhereSomebodyReads) {
  constexpr int kReaders = 3;
  constexpr std::uint64_t kObjects = 2000;
  constexpr std::size_t kBytes = 2048;  // fits the smallest slots, so slots are reused at once
  PlainStore store{64_MiB};
  // Locations that readers look for. An object here is the newest of its place, or has just ended.
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
        auto object = process.client->borrow(location);
        if (object) {
          kept.emplace_back(*std::move(object), number);
          ++reads;
        } else {
          ++refused;
        }
        if (kept.size() > 3) {
          for (const auto& [each, its] : kept) ASSERT_TRUE(holds(*each, its));
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
      // The loop goes on until the readers have read enough, because on a busy machine they may start late.
      for (std::uint64_t i = 1; i <= kObjects || (reads.load() < kObjects && i < 1000 * kObjects); ++i) {
        const std::uint64_t number = (i << 32) + (w << 60);
        auto object = put(*process.client, kBytes, number);
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

TEST_F(StoreThreadsTest, WhatSomebodyKeepsCanBePassedOnWhileItsOwnerLetsGoAndTheDiskTakesIt) {
  constexpr int kRounds = 400;
  PlainStore store{64_MiB, 256_MiB};
  // In each round a new object goes from hand to hand. Each hand keeps it until the next one has it, and may read it.
  struct Hand {
    std::mutex mutex;
    std::condition_variable changed;
    std::shared_ptr<Object> object;  // null if it was taken or has not arrived
    std::uint64_t number = 0;
  };
  std::array<Hand, 3> hands;
  std::atomic<bool> done = false;
  const auto give = [](Hand& hand, std::shared_ptr<Object> object, std::uint64_t number) {
    std::unique_lock lock{hand.mutex};
    hand.changed.wait(lock, [&] { return hand.object == nullptr; });
    hand.object = std::move(object);
    hand.number = number;
    hand.changed.notify_all();
  };
  std::vector<std::thread> threads;
  for (std::size_t h = 0; h < hands.size(); ++h) {
    threads.emplace_back([&, h, seed = random_()] {
      std::mt19937_64 random{seed};
      const auto process = store.start(CallerId{100 + h});
      for (int round = 0; round < kRounds; ++round) {
        std::shared_ptr<Object> mine;
        std::uint64_t number = 0;
        {
          Hand& hand = hands[h];
          std::unique_lock lock{hand.mutex};
          hand.changed.wait(lock, [&] { return hand.object != nullptr; });
          auto borrowed = process.client->borrow(hand.object->location());
          ASSERT_TRUE(borrowed.ok()) << borrowed.error().to_string();
          mine = *std::move(borrowed);
          number = hand.number;
          hand.object.reset();
          hand.changed.notify_all();
        }
        ASSERT_TRUE(random() % 2 == 0 || holds(*mine, number));
        if (h + 1 < hands.size()) give(hands[h + 1], mine, number);
        mine.reset();
      }
    });
  }
  threads.emplace_back([&] {
    while (!done.load()) store.spill(1);
  });
  const auto maker = store.start(CallerId{1});
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    auto object = put(*maker.client, 2048, round << 32);
    ASSERT_NE(object, nullptr);
    give(hands[0], std::move(object), round << 32);
  }
  for (std::size_t h = 0; h < hands.size(); ++h) threads[h].join();
  done.store(true);
  threads.back().join();
  maker.client->trim();
  EXPECT_EQ(store.outside(), 0);
}

}  // namespace
}  // namespace pharos::object_store
