#include <atomic>
#include <functional>
#include <random>

#include <pharos/async/async_group.hpp>
#include <pharos/storage/memory_kv_store.hpp>

#include "store_test.hpp"
#include "temporary_folder.hpp"

// Tests that every implementation of KvStore must pass.

namespace pharos::storage {
namespace {

/// A store, and the owner of the folder where it lies (null for a store in memory).
struct Backend {
  std::shared_ptr<void> ground;
  std::unique_ptr<KvStore> store;
};

Backend memory_backend() {
  return {nullptr, make_memory_kv_store()};
}

Backend rocksdb_backend() {
  auto folder = std::make_shared<TemporaryFolder>();
  auto store = must_open(folder->path());
  return {std::move(folder), std::move(store)};
}

class KvStoreConformance : public StoreTest, public testing::WithParamInterface<Backend (*)()> {
 protected:
  KvStore& store() { return *backend_.store; }
  Result<void> write(Batch batch) { return run(store().write(std::move(batch), soon())); }
  std::optional<std::string> get(std::string key) { return StoreTest::get(store(), std::move(key)); }
  std::vector<std::string> keys(std::string prefix, std::size_t limit = 1000) {
    return only_keys(run(store().scan(std::move(prefix), limit, soon())).value());
  }
  std::vector<std::string> keys_after(std::string prefix, std::string after, std::size_t limit = 1000) {
    return only_keys(run(store().scan_after(std::move(prefix), std::move(after), limit, soon())).value());
  }

 private:
  static std::vector<std::string> only_keys(const std::vector<KeyValue>& found) {
    std::vector<std::string> keys;
    for (const auto& pair : found) keys.push_back(pair.key);
    return keys;
  }

  Backend backend_ = GetParam()();
};

using Keys = std::vector<std::string>;

TEST_P(KvStoreConformance, AKeyThatWasNeverPutHasNoValue) {
  EXPECT_EQ(get("absent"), std::nullopt);
  EXPECT_EQ(keys(""), Keys{});
}

TEST_P(KvStoreConformance, AWriteIsSeenByEveryLaterRead) {
  ASSERT_TRUE(write(Batch{}.put("a", "1").put("b", "2")).ok());
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(get("b"), "2");
  ASSERT_TRUE(write(Batch{}.put("a", "3").erase("b")).ok());
  EXPECT_EQ(get("a"), "3");
  EXPECT_EQ(get("b"), std::nullopt);
}

TEST_P(KvStoreConformance, OfTwoChangesOfAKeyInABatchTheLaterStands) {
  ASSERT_TRUE(write(Batch{}.put("a", "1").erase("a").put("b", "1").put("b", "2").erase("c").put("c", "3")).ok());
  EXPECT_EQ(get("a"), std::nullopt);
  EXPECT_EQ(get("b"), "2");
  EXPECT_EQ(get("c"), "3");
}

TEST_P(KvStoreConformance, DeletingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(write(Batch{}.erase("absent")).ok());
}

TEST_P(KvStoreConformance, AnEmptyBatchSucceeds) {
  EXPECT_TRUE(write(Batch{}).ok());
}

TEST_P(KvStoreConformance, KeysAndValuesAreAnyBytes) {
  const std::string zeros{"\0a\0", 3};
  const std::string high = "\xff\xfe";
  const std::string large(1 << 20, '\x80');
  ASSERT_TRUE(write(Batch{}.put("", zeros).put(zeros, "").put(high, large)).ok());
  EXPECT_EQ(get(""), zeros);
  EXPECT_EQ(get(zeros), "");
  EXPECT_EQ(get(high), large);
}

TEST_P(KvStoreConformance, AScanGivesTheKeysOfItsPrefixInTheOrderOfTheirBytes) {
  const std::string ends_with_zero{"job/\0", 5};
  ASSERT_TRUE(write(Batch{}
                        .put("job/b", "")
                        .put("job/\xff", "")
                        .put("job/a", "")
                        .put("job", "")
                        .put("job0", "")
                        .put(ends_with_zero, "")
                        .put("job/", ""))
                  .ok());
  EXPECT_EQ(keys("job/"), (Keys{"job/", ends_with_zero, "job/a", "job/b", "job/\xff"}));
  EXPECT_EQ(keys("job/a"), Keys{"job/a"});
  EXPECT_EQ(keys("absent"), Keys{});
}

TEST_P(KvStoreConformance, APrefixOfTheHighestBytesIsScannedToTheEnd) {
  ASSERT_TRUE(write(Batch{}.put("\xff", "").put("\xff\xff", "").put("\xfe", "")).ok());
  EXPECT_EQ(keys("\xff"), (Keys{"\xff", "\xff\xff"}));
}

TEST_P(KvStoreConformance, AScanStopsAtItsLimit) {
  ASSERT_TRUE(write(Batch{}.put("a", "").put("b", "").put("c", "")).ok());
  EXPECT_EQ(keys("", 2), (Keys{"a", "b"}));
  EXPECT_EQ(keys("", 0), Keys{});
}

TEST_P(KvStoreConformance, PagesOfAScanFollowEachOther) {
  Batch batch;
  for (char c = 'a'; c <= 'z'; ++c) batch.put(std::string{"k/"} + c, "");
  ASSERT_TRUE(write(std::move(batch.put("j", "").put("l", ""))).ok());
  Keys all;
  for (Keys page = keys("k/", 10); !page.empty(); page = keys_after("k/", page.back(), 10)) {
    EXPECT_LE(page.size(), 10u);
    all.insert(all.end(), page.begin(), page.end());
  }
  EXPECT_EQ(all.size(), 26u);
  EXPECT_EQ(all, keys("k/"));
}

TEST_P(KvStoreConformance, AScanAfterAKeyThatIsGoneOrOutsideThePrefixGoesOnWhereItWouldBe) {
  ASSERT_TRUE(write(Batch{}.put("k/a", "").put("k/c", "")).ok());
  EXPECT_EQ(keys_after("k/", "k/b"), Keys{"k/c"});
  EXPECT_EQ(keys_after("k/", "a"), (Keys{"k/a", "k/c"}));
  EXPECT_EQ(keys_after("k/", "z"), Keys{});
}

async::Async<void> write_pairs(KvStore* store, int times, Deadline deadline, std::atomic<bool>* done) {
  for (int i = 0; i < times; ++i) {
    auto batch = std::move(Batch{}.put("left", std::to_string(i)).put("right", std::to_string(i)));
    const auto written = co_await store->write(std::move(batch), deadline);
    EXPECT_TRUE(written.ok());
  }
  *done = true;
}

TEST_P(KvStoreConformance, AScanSeesABatchWholeOrNotAtAll) {
  async::ThreadExecutor writing{"writing"};
  async::AsyncGroup group{writing};
  std::atomic<bool> done{false};
  group.spawn(write_pairs(&store(), 300, soon(), &done));
  while (!done) {
    const auto found = contents(store());
    ASSERT_TRUE(found.empty() || (found.size() == 2 && found.at("left") == found.at("right")));
  }
  ASSERT_TRUE(group.join_blocking(soon()).ok());
}

async::Async<void> write_one(KvStore* store, Batch batch, Deadline deadline, std::atomic<int>* written) {
  const auto result = co_await store->write(std::move(batch), deadline);
  if (result.ok()) ++*written;
}

TEST_P(KvStoreConformance, ManyWritesAtOnceAreAppliedInTheirOrder) {
  constexpr int kWrites = 500;
  async::AsyncGroup group{executor_};
  std::atomic<int> written{0};
  for (int i = 0; i < kWrites; ++i) {
    auto batch = std::move(Batch{}.put("last", std::to_string(i)).put("n/" + std::to_string(i), ""));
    group.spawn(write_one(&store(), std::move(batch), soon(), &written));
  }
  ASSERT_TRUE(group.join_blocking(soon()).ok());
  EXPECT_EQ(written, kWrites);
  EXPECT_EQ(get("last"), std::to_string(kWrites - 1));
  EXPECT_EQ(keys("n/").size(), std::size_t{kWrites});
}

async::Async<void> write_when_cancelled(KvStore* store, Deadline deadline, std::vector<Error>* errors) {
  auto batch = std::move(Batch{}.put("a", ""));
  auto written = co_await store->write(std::move(batch), deadline);
  if (!written.ok()) errors->push_back(std::move(written).error());
  auto got = co_await store->get("a", deadline);
  if (!got.ok()) errors->push_back(std::move(got).error());
  auto scanned = co_await store->scan("", 1, deadline);
  if (!scanned.ok()) errors->push_back(std::move(scanned).error());
}

TEST_P(KvStoreConformance, ACancelledCallerStartsNothing) {
  async::AsyncGroup group{executor_};
  std::vector<Error> errors;
  group.cancel();
  group.spawn(write_when_cancelled(&store(), soon(), &errors));
  ASSERT_TRUE(group.join_blocking(soon()).ok());
  ASSERT_EQ(errors.size(), 3u);
  for (const auto& error : errors) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    EXPECT_EQ(error.outcome(), Outcome::kNotStarted);
  }
  EXPECT_EQ(get("a"), std::nullopt);
}

TEST_P(KvStoreConformance, DoesAsASortedMapDoes) {
  const unsigned seed = 20260102;
  SCOPED_TRACE(seed);
  std::mt19937 random{seed};
  Contents model;
  const auto random_key = [&] { return std::string(1 + random() % 2, static_cast<char>('a' + random() % 4)); };
  for (int step = 0; step < 200; ++step) {
    Batch batch;
    for (auto changes = random() % 5; changes > 0; --changes) {
      const auto key = random_key();
      if (random() % 3 == 0) {
        batch.erase(key);
        model.erase(key);
      } else {
        batch.put(key, std::to_string(step));
        model[key] = std::to_string(step);
      }
    }
    ASSERT_TRUE(write(std::move(batch)).ok());
    const auto key = random_key();
    const auto expected = model.find(key);
    ASSERT_EQ(get(key), expected == model.end() ? std::nullopt : std::optional{expected->second});
  }
  EXPECT_EQ(contents(store()), model);
}

INSTANTIATE_TEST_SUITE_P(Memory, KvStoreConformance, testing::Values(&memory_backend));
INSTANTIATE_TEST_SUITE_P(RocksDb, KvStoreConformance, testing::Values(&rocksdb_backend));

}  // namespace
}  // namespace pharos::storage
