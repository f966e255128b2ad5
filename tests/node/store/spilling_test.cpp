#include "store/spilling.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include <pharos/object_store/spill_file.hpp>

#include "store/idle_memory.hpp"
#include "store_fixture.hpp"
#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Location;
using object_store::SlotState;

class SpillingTest : public StoreTest {
 protected:
  SpillingTest()
      : spilling_{executor_,
                  store_,
                  work_,
                  {.folder = folder_.path(),
                   .make_file = [this]() -> Result<Fd> {
                     ++files_asked_for_;
                     if (has_disk_) return object_store::SpillFile::open_in(folder_.path());
                     return Error{ErrorCode::kExhausted, "there is no disk"};
                   },
                   .elsewhere = [this](const object_store::Place& place) { return place == elsewhere_; }},
                  {.left = [this] { ++left_; }, .failed = [this] { ++failed_; }}} {}

  Result<void> read_back(const Location& object) {
    const auto body = store_->book.begin_return(object.place).value();
    std::optional<Result<void>> read;
    spilling_.read_back(body, [&read](Result<void> result) { read = std::move(result); });
    executor_.run_until_idle();
    store_->ledger.note_back(object.place);
    return *read;
  }

  const TemporaryFolder folder_;
  bool has_disk_ = true;
  int files_asked_for_ = 0;
  std::optional<object_store::Place> elsewhere_;
  int left_ = 0;
  int failed_ = 0;
  Spilling spilling_;
};

TEST_F(SpillingTest, AnObjectGoesToDiskAndComesBackAsItWas) {
  const Location object = make_object();
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  EXPECT_EQ(spilling_.leaving_bytes(), kObjectBytes);
  executor_.run_until_idle();
  EXPECT_EQ(left_, 1);
  EXPECT_EQ(spilling_.leaving_bytes(), 0u);
  EXPECT_EQ(state_of(object), SlotState::kOut);
  EXPECT_FALSE(is_whole(object)) << "its memory is with the system again";
  ASSERT_TRUE(spilling_.on_disk(object.place));
  EXPECT_TRUE(read_back(object));
  EXPECT_TRUE(is_whole(object));
  EXPECT_TRUE(spilling_.on_disk(object.place)) << "the copy stays for the next time";
}

TEST_F(SpillingTest, WhoHasMappedTheMemoryOfAnObjectSeesThatItWasTakenAway) {
  const Location object = make_object();
  const Location stays = make_object();
  const auto before = releases(object);
  const auto before_of_other = releases(stays);
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  ASSERT_EQ(state_of(object), SlotState::kOut);
  EXPECT_GT(releases(object), before);
  EXPECT_EQ(releases(stays), before_of_other);
}

TEST_F(SpillingTest, AnObjectWithACopyOnDiskIsNotWrittenAgain) {
  const Location object = make_object();
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  const auto on_disk = store_->disk->bytes();
  EXPECT_TRUE(read_back(object));
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  EXPECT_EQ(state_of(object), SlotState::kOut);
  EXPECT_EQ(store_->disk->bytes(), on_disk);
}

TEST_F(SpillingTest, AnObjectThatAnotherNodeHasIsNotWritten) {
  const Location object = make_object();
  elsewhere_ = object.place;
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  EXPECT_EQ(state_of(object), SlotState::kOut);
  EXPECT_EQ(spilling_.copies(), 0u);
}

TEST_F(SpillingTest, TheCopyOfAnObjectThatNobodyUsesIsDropped) {
  const Location object = make_object();
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  spilling_.end_unused();
  EXPECT_EQ(spilling_.copies(), 1u);
  store_->ledger.let_go(object.place);
  spilling_.end_unused();
  executor_.run_until_idle();
  EXPECT_EQ(spilling_.copies(), 0u);
  EXPECT_EQ(store_->disk->bytes(), 0u);
}

TEST_F(SpillingTest, ADiskThatFailsIsLeftAloneForASecond) {
  has_disk_ = false;
  const Location object = make_object();
  EXPECT_FALSE(spilling_.spill(kObjectBytes));
  ASSERT_TRUE(spilling_.trouble());
  EXPECT_EQ(spilling_.trouble()->message(), "there is no disk");
  EXPECT_FALSE(spilling_.spill(kObjectBytes));
  EXPECT_EQ(files_asked_for_, 1);
  has_disk_ = true;
  executor_.advance(1s);
  EXPECT_TRUE(spilling_.spill(kObjectBytes));
  executor_.run_until_idle();
  EXPECT_EQ(state_of(object), SlotState::kOut);
  EXPECT_FALSE(spilling_.trouble());
}

TEST_F(SpillingTest, ObjectsLeaveEarlyOnceFourFifthsOfTheMemoryAreLent) {
  for (int i = 0; i < 3; ++i) make_object();
  spilling_.spill_early();
  EXPECT_EQ(spilling_.leaving_bytes(), 0u);
  make_object();
  spilling_.spill_early();
  EXPECT_EQ(spilling_.leaving_bytes(), 2 * kObjectBytes) << "until less than three quarters are lent";
}

class IdleMemoryTest : public StoreTest {
 protected:
  void end(const Location& object) {
    store_->ledger.let_go(object.place);
    EXPECT_TRUE(store_->ledger.end(object.place.slot));
    store_->book.give_back(table_, object.place.slot);
  }

  int released_ = 0;
  IdleMemory idle_{executor_, store_, work_, [this] { ++released_; }};
};

TEST_F(IdleMemoryTest, FreeMemoryGoesBackToTheSystemAfterSomeSeconds) {
  const Location object = make_object();
  const auto before = releases(object);
  end(object);
  EXPECT_EQ(store_->book.idle_bytes(), kObjectBytes);
  idle_.release_later();
  executor_.advance(4s);
  EXPECT_EQ(store_->book.memory(), kObjectBytes);
  EXPECT_EQ(releases(object), before);
  executor_.advance(1s);
  EXPECT_EQ(store_->book.memory(), 0u);
  EXPECT_GT(releases(object), before);
  EXPECT_EQ(released_, 1);
}

TEST_F(IdleMemoryTest, MemoryCountsAsReleasingUntilItIsBackInTheSystem) {
  end(make_object());
  idle_.release(1);
  EXPECT_EQ(idle_.releasing_bytes(), kObjectBytes);
  EXPECT_EQ(released_, 0);
  executor_.run_until_idle();
  EXPECT_EQ(idle_.releasing_bytes(), 0u);
  EXPECT_EQ(released_, 1);
}

}  // namespace
}  // namespace pharos::node
