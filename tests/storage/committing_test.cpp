#include <cerrno>
#include <optional>

#include <pharos/async/async_group.hpp>

#include "store_test.hpp"
#include "sync_watch.hpp"
#include "temporary_folder.hpp"

// Tests of when a write is acknowledged, how many writes share one sync, and what follows from a failed sync.

namespace pharos::storage {
namespace {

using namespace std::chrono_literals;

/// A write in the background, and its result.
class Written {
 public:
  Written(async::Executor& executor, KvStore& store, Batch batch, Deadline deadline) : group_{executor} {
    group_.spawn(async::detail::keep(store.write(std::move(batch), deadline), &result_));
  }
  Result<void>& wait() {
    const auto joined = group_.join_blocking(Deadline::never());
    PHAROS_CHECK(joined.ok() && result_.has_value());
    return *result_;
  }
  bool pending() const { return group_.size() > 0; }

 private:
  std::optional<Result<void>> result_;
  async::AsyncGroup group_;
};

class CommittingTest : public StoreTest {
 protected:
  void open(RocksDbOptions options = {}) {
    store_.reset();
    store_ = must_open(folder_.path(), options);
  }
  /// Starts a write whose sync then waits for release().
  std::unique_ptr<Written> hold_one_up(std::string key) {
    watch_.hold();
    auto written = start(key);
    watch_.wait_until_one_is_held();
    return written;
  }
  std::unique_ptr<Written> start(std::string key, Deadline deadline = soon()) {
    auto batch = std::move(Batch{}.put(std::move(key), "value"));
    return std::make_unique<Written>(executor_, *store_, std::move(batch), deadline);
  }
  bool names_the_folder(const Error& error) const {
    return error.message().find(folder_.path().string()) != std::string::npos;
  }

  TemporaryFolder folder_;
  SyncWatch watch_;
  std::unique_ptr<KvStore> store_;
};

TEST_F(CommittingTest, AWriteIsNotAcknowledgedNorSeenBeforeItsSync) {
  open();
  const auto written = hold_one_up("a");
  settle();
  EXPECT_TRUE(written->pending());
  EXPECT_EQ(get(*store_, "a"), std::nullopt);
  watch_.release();
  EXPECT_TRUE(written->wait().ok());
  EXPECT_EQ(get(*store_, "a"), "value");
}

TEST_F(CommittingTest, AWriteByItselfTakesOneSync) {
  open();
  const int before = watch_.syncs();
  EXPECT_TRUE(put(*store_, "a", "1").ok());
  EXPECT_EQ(watch_.syncs(), before + 1);
}

TEST_F(CommittingTest, AllThatComeInDuringASyncShareTheNext) {
  open();
  const int before = watch_.syncs();
  const auto first = hold_one_up("first");
  std::vector<std::unique_ptr<Written>> meanwhile;
  for (int i = 0; i < 1000; ++i) meanwhile.push_back(start("meanwhile/" + std::to_string(i)));
  settle();
  watch_.release();
  EXPECT_TRUE(first->wait().ok());
  for (const auto& written : meanwhile) EXPECT_TRUE(written->wait().ok());
  EXPECT_EQ(watch_.syncs(), before + 2);
  EXPECT_EQ(contents(*store_).size(), 1001u);
}

TEST_F(CommittingTest, AGroupIsNoLargerThanItsBound) {
  open();
  const int before = watch_.syncs();
  const auto first = hold_one_up("first");
  std::vector<std::unique_ptr<Written>> meanwhile;
  for (int i = 0; i < 4; ++i) {
    auto batch = std::move(Batch{}.put(std::to_string(i), std::string(3 << 20, 'x')));
    meanwhile.push_back(std::make_unique<Written>(executor_, *store_, std::move(batch), soon()));
  }
  settle();
  watch_.release();
  for (const auto& written : meanwhile) EXPECT_TRUE(written->wait().ok());
  EXPECT_GE(watch_.syncs(), before + 5) << "two batches of 3 MiB do not share a write of 4 MiB";
}

TEST_F(CommittingTest, TooManyWritesAtOnceAreRefused) {
  open({.queued_writes_max = 2});
  const auto first = hold_one_up("first");
  const auto second = start("second");
  const auto third = start("third");
  settle();
  const auto refused = put(*store_, "refused", "");
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(refused.error().outcome(), Outcome::kNotStarted);
  watch_.release();
  EXPECT_TRUE(first->wait().ok() && second->wait().ok() && third->wait().ok());
  EXPECT_TRUE(put(*store_, "later", "").ok());
  EXPECT_EQ(get(*store_, "refused"), std::nullopt);
}

TEST_F(CommittingTest, TooManyBytesAtOnceAreRefusedAndABatchThatNeverFitsIsAMistake) {
  open({.queued_bytes_max = 100_B});
  const auto too_large = put(*store_, "k", std::string(100, 'x'));
  EXPECT_EQ(too_large.error().code(), ErrorCode::kInvalidArgument);
  const auto first = hold_one_up("first");
  auto batch = std::move(Batch{}.put("k", std::string(60, 'x')));
  Written queued{executor_, *store_, std::move(batch), soon()};
  settle();
  EXPECT_EQ(put(*store_, "k", std::string(60, 'x')).error().code(), ErrorCode::kOverloaded);
  watch_.release();
  EXPECT_TRUE(queued.wait().ok());
}

TEST_F(CommittingTest, ADeadlineTellsWhetherTheWriteMayHaveHappened) {
  open();
  watch_.hold();
  const auto begun = start("begun", Deadline::after(5ms, executor_));
  watch_.wait_until_one_is_held();
  const auto queued = start("queued", Deadline::after(5ms, executor_));
  const auto& begun_error = begun->wait().error();
  const auto& queued_error = queued->wait().error();
  EXPECT_EQ(begun_error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(begun_error.outcome(), Outcome::kUnknown);
  EXPECT_EQ(queued_error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(queued_error.outcome(), Outcome::kNotStarted);
  watch_.release();
  EXPECT_TRUE(put(*store_, "after", "").ok());
  EXPECT_EQ(get(*store_, "queued"), std::nullopt) << "what did not start never does";
}

TEST_F(CommittingTest, ClosingWritesWhatHasComeIn) {
  open();
  const auto first = hold_one_up("first");
  const auto second = start("second");
  settle();
  std::thread closing{[this] { store_.reset(); }};
  watch_.release();
  closing.join();
  EXPECT_TRUE(first->wait().ok() && second->wait().ok());
  open();
  EXPECT_EQ(get(*store_, "second"), "value");
}

TEST_F(CommittingTest, AfterAFailedSyncEveryWriteIsRefusedUntilTheStoreIsOpenedAgain) {
  open();
  ASSERT_TRUE(put(*store_, "before", "1").ok());
  const auto failing = hold_one_up("failing");
  const auto behind_it = start("behind it");
  settle();
  watch_.fail_with(EIO);
  watch_.release();

  const auto& failed = failing->wait().error();
  EXPECT_EQ(failed.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(failed.outcome(), Outcome::kUnknown);
  EXPECT_TRUE(names_the_folder(failed)) << failed.to_string();
  const auto& refused = behind_it->wait().error();
  EXPECT_EQ(refused.code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(refused.outcome(), Outcome::kNotStarted);

  watch_.fail_with(0);  // the disk works again, but what it holds is unknown
  const auto later = put(*store_, "later", "1");
  EXPECT_EQ(later.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(later.error().outcome(), Outcome::kNotStarted);
  EXPECT_TRUE(names_the_folder(later.error())) << later.error().to_string();
  EXPECT_NE(later.error().remedy().find("open the store again"), std::string::npos);
  EXPECT_EQ(get(*store_, "before"), "1") << "reads go on";

  open();
  EXPECT_EQ(get(*store_, "before"), "1");
  EXPECT_EQ(get(*store_, "behind it"), std::nullopt);
  EXPECT_EQ(get(*store_, "later"), std::nullopt);
  EXPECT_TRUE(put(*store_, "again", "1").ok());
}

TEST_F(CommittingTest, ReopeningKeepsWhatWasAcknowledged) {
  Contents model;
  for (int round = 0; round < 4; ++round) {
    open();
    EXPECT_EQ(contents(*store_), model);
    for (int i = 0; i < 20; ++i) {
      const auto key = std::to_string(i);
      const auto value = std::to_string(round) + "/" + key;
      ASSERT_TRUE(put(*store_, key, value).ok());
      model[key] = value;
    }
    ASSERT_TRUE(run(store_->write(std::move(Batch{}.erase("7")), soon())).ok());
    model.erase("7");
  }
}

TEST_F(CommittingTest, MoreThanTheLogsMayHoldIsKeptToo) {
  open();
  const std::string value(1 << 20, 'v');
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(put(*store_, std::to_string(i), value).ok());
  open();
  EXPECT_EQ(contents(*store_).size(), 50u);
  EXPECT_EQ(get(*store_, "0"), value);
}

}  // namespace
}  // namespace pharos::storage
