#include <gtest/gtest.h>

#include <pharos/object_store/store_client.hpp>

#include "plain_store.hpp"

namespace pharos::object_store {
namespace {

class StoreClientTest : public testing::Test {
 protected:
  PlainStore store_{128_MiB};
  PlainStore::Process maker_ = store_.start(CallerId{1});
  PlainStore::Process other_ = store_.start(CallerId{2});
};

TEST_F(StoreClientTest, WhatOneProcessSealsAnotherReads) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto seen = other_.client->borrow(object->location());
  ASSERT_TRUE(seen.ok());
  EXPECT_TRUE(holds(**seen, 7));
  EXPECT_EQ((*seen)->size(), kMiB);
}

TEST_F(StoreClientTest, BytesOfAnObjectLeadToIt) {
  auto first = put(*maker_.client, kMiB, 7);
  const auto second = put(*maker_.client, kMiB, 8);
  const auto seen = other_.client->borrow(first->location());
  const auto found = [&](std::span<const std::byte> bytes) { return maker_.client->object_with(bytes); };
  EXPECT_EQ(found(first->where()), first);
  EXPECT_EQ(found(second->where().subspan(kMiB - 1)), second);
  EXPECT_EQ(found(first->where().subspan(100, 1000)), first);
  EXPECT_EQ(other_.client->object_with((*seen)->where().first(1)), *seen);
  EXPECT_EQ(other_.client->object_with(second->where()), nullptr) << "it has no share in that";
  EXPECT_EQ(found({first->where().data(), kMiB + 1}), nullptr) << "it ends behind the object";
  EXPECT_EQ(found({first->where().data() - 1, 2}), nullptr);
  const std::vector<std::byte> elsewhere(10);
  EXPECT_EQ(found(elsewhere), nullptr);
  const auto bytes = first->where();
  first.reset();
  EXPECT_EQ(found(bytes), nullptr);
}

TEST_F(StoreClientTest, AnObjectThatHasEndedIsLost) {
  const Location location = put(*maker_.client, kMiB, 7)->location();
  EXPECT_EQ(other_.client->borrow(location).error().code(), ErrorCode::kObjectLost);
  const auto next = put(*maker_.client, kMiB, 8);
  ASSERT_EQ(next->location().place.slot, location.place.slot);
  EXPECT_GT(next->location().place.generation, location.place.generation);
  EXPECT_EQ(other_.client->borrow(location).error().code(), ErrorCode::kObjectLost);
}

TEST_F(StoreClientTest, LocationsThatMakeNoSenseAreRefused) {
  const auto object = put(*maker_.client, kMiB, 7);
  Location location = object->location();
  location.place.slot = ~std::uint32_t{0};
  EXPECT_EQ(other_.client->borrow(location).error().code(), ErrorCode::kObjectLost);
  location = object->location();
  ++location.id.number;
  EXPECT_EQ(other_.client->borrow(location).error().code(), ErrorCode::kObjectLost);
}

TEST_F(StoreClientTest, AHeaderThatLeadsOutsideOfTheStoreIsRefused) {
  const auto object = put(*maker_.client, kMiB, 7);
  SlotHeader& header = store_.ledger().slot(object->location().place.slot);
  header.size.store(~std::uint64_t{0});
  EXPECT_EQ(other_.client->borrow(object->location()).error().code(), ErrorCode::kCorrupt);
  header.offset.store(~std::uint64_t{0} - 100);
  header.size.store(200);
  EXPECT_EQ(other_.client->borrow(object->location()).error().code(), ErrorCode::kCorrupt);
}

TEST_F(StoreClientTest, WhatIsReadStaysThoughItsHolderLetsGo) {
  auto object = put(*maker_.client, kMiB, 7);
  auto seen = other_.client->borrow(object->location());
  const auto slot = object->location().place.slot;
  object.reset();
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_NE(put(*maker_.client, kMiB, 100 + i)->location().place.slot, slot);
  EXPECT_TRUE(holds(**seen, 7));
  seen->reset();
  std::vector<std::shared_ptr<Object>> kept;
  for (std::uint64_t i = 0; i < 4; ++i) kept.push_back(put(*maker_.client, kMiB, i));
  EXPECT_EQ(
      std::count_if(kept.begin(), kept.end(), [&](const auto& each) { return each->location().place.slot == slot; }), 1)
      << "the slot is used again once nobody reads there";
}

TEST_F(StoreClientTest, AnObjectOfTheSameSizeTakesTheSlotThatWasUsedLast) {
  const auto slot = put(*maker_.client, 64 * kMiB, 1)->location().place.slot;
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(put(*maker_.client, 64 * kMiB, i)->location().place.slot, slot);
  EXPECT_EQ(store_.book().census().slabs, 1);
}

TEST_F(StoreClientTest, AnObjectThatIsNotSealedIsNobodys) {
  {
    const auto half = maker_.client->create(kMiB);
    ASSERT_TRUE(half.ok());
    EXPECT_EQ(store_.book().census().objects, 1);
  }
  EXPECT_EQ(store_.book().census().objects, 0);
}

TEST_F(StoreClientTest, AFullStoreIsExhaustedWithNumbers) {
  std::vector<std::shared_ptr<Object>> objects;
  for (int i = 0; i < 2; ++i) objects.push_back(put(*maker_.client, 60 * kMiB, 1));
  const auto failed = maker_.client->create(60 * kMiB);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kExhausted);
  EXPECT_NE(failed.error().to_string().find("of 128 MiB, 8 MiB are free"), std::string::npos)
      << failed.error().to_string();
  EXPECT_EQ(maker_.client->create(std::uint64_t{1} << 62).error().code(), ErrorCode::kExhausted);
  objects.pop_back();
  EXPECT_TRUE(maker_.client->create(60 * kMiB).ok());
}

TEST_F(StoreClientTest, AnObjectThatIsBorrowedTwiceIsPinnedOnce) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto seen = other_.client->borrow(object->location()).value();
  for (std::uint32_t i = 0; i < 2 * kPinsMax; ++i) {
    ASSERT_EQ(other_.client->borrow(object->location()).value(), seen);
  }
  EXPECT_EQ(maker_.client->borrow(object->location()).value(), object);
}

TEST_F(StoreClientTest, AProcessThatReadsTooMuchAtOnceIsToldSo) {
  // The test uses one object under many ids, because that many objects would not fit.
  const auto object = put(*maker_.client, kMiB, 7);
  std::vector<std::shared_ptr<Object>> objects;
  const auto third = store_.start(CallerId{3});
  SlotHeader& header = store_.ledger().slot(object->location().place.slot);
  Location location = object->location();
  for (std::uint32_t i = 0; i < kPinsMax; ++i) {
    location.id.number = i + 1000;
    header.number.store(location.id.number);
    auto borrowed = third.client->borrow(location);
    ASSERT_TRUE(borrowed.ok()) << i << ": " << borrowed.error().to_string();
    objects.push_back(*std::move(borrowed));
  }
  ++location.id.number;
  header.number.store(location.id.number);
  EXPECT_EQ(third.client->borrow(location).error().code(), ErrorCode::kExhausted);
  objects.pop_back();
  EXPECT_TRUE(third.client->borrow(location).ok());
}

TEST_F(StoreClientTest, TrimGivesBackWhatIsFreeAndNothingElse) {
  const auto kept = put(*maker_.client, kMiB, 7);
  put(*maker_.client, 20 * kMiB, 8);
  EXPECT_EQ(store_.book().census().slabs, 2);
  maker_.client->trim();
  EXPECT_EQ(store_.book().census().slabs, 1);
  EXPECT_TRUE(holds(*kept, 7));
}

TEST_F(StoreClientTest, AnHeirTakesAResultOverOnceAndItOutlivesItsMaker) {
  auto result = put(*maker_.client, kMiB, 7, CallerId{2});
  const Location location = result->location();
  result->hand_over();
  result.reset();
  auto taken = other_.client->take_over(location);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(other_.client->take_over(location).error().code(), ErrorCode::kObjectLost);
  store_.end(maker_);
  EXPECT_TRUE(holds(**taken, 7));
  EXPECT_EQ(store_.book().census().slabs, 1);
  taken->reset();
  EXPECT_TRUE(store_.book().reclaim());
  EXPECT_EQ(store_.book().census().slabs, 0);
}

TEST_F(StoreClientTest, AnHeirTakesAResultWhoseMakerDiedMeanwhile) {
  auto result = put(*maker_.client, kMiB, 7, CallerId{2});
  const Location location = result->location();
  result->hand_over();
  result.reset();
  store_.end(maker_);
  auto taken = other_.client->take_over(location);
  ASSERT_TRUE(taken.ok());
  store_.end_unclaimed();
  EXPECT_TRUE(holds(**taken, 7));
  EXPECT_EQ(store_.book().census().objects, 1);
  taken->reset();
  EXPECT_EQ(store_.book().census().objects, 0);
}

TEST_F(StoreClientTest, AResultThatNobodyTookEndsAfterItsMakerAndWithItsHeir) {
  const auto hand_over = [&](std::uint64_t number) {
    const auto result = put(*maker_.client, kMiB, number, CallerId{2});
    result->hand_over();
    return result->location();
  };
  const Location first = hand_over(1);
  store_.end(other_);
  const auto third = store_.start(CallerId{3});
  maker_.client->trim();
  EXPECT_EQ(third.client->borrow(first).error().code(), ErrorCode::kObjectLost);
  const Location second = hand_over(2);
  store_.end(maker_);
  EXPECT_EQ(store_.book().census().objects, 1) << "its heir may hear of it yet";
  store_.end_unclaimed();
  EXPECT_EQ(third.client->take_over(second).error().code(), ErrorCode::kObjectLost);
  EXPECT_EQ(store_.book().census().objects, 0);
  EXPECT_EQ(store_.book().census().slabs, 0);
}

TEST_F(StoreClientTest, AProcessThatEndsLeavesNothingButWhatOthersKeep) {
  const auto object = put(*maker_.client, kMiB, 7);
  auto half = maker_.client->create(kMiB);
  auto seen = other_.client->borrow(object->location()).value();
  store_.end(maker_);
  EXPECT_EQ(store_.book().census().objects, 0);
  EXPECT_EQ(store_.book().census().slabs, 1) << "somebody keeps what lies there";
  EXPECT_TRUE(holds(*seen, 7));
  seen.reset();
  EXPECT_TRUE(store_.book().reclaim());
  EXPECT_EQ(store_.book().lent_memory(), 0);
}

TEST_F(StoreClientTest, WhoKeepsAnObjectMayPassItOn) {
  auto object = put(*maker_.client, kMiB, 7);
  const Location location = object->location();
  auto kept = other_.client->borrow(location).value();
  object.reset();
  const auto third = store_.start(CallerId{3});
  auto passed_on = third.client->borrow(kept->location());
  ASSERT_TRUE(passed_on.ok()) << passed_on.error().to_string();
  kept.reset();
  EXPECT_TRUE(holds(**passed_on, 7));
  EXPECT_NE(put(*maker_.client, kMiB, 8)->location().place.slot, location.place.slot);
  passed_on->reset();
  maker_.client->trim();
  EXPECT_EQ(store_.book().census().slabs, 0);
  EXPECT_EQ(third.client->borrow(location).error().code(), ErrorCode::kObjectLost);
}

TEST_F(StoreClientTest, WhoKeepsAnObjectMayPassItOnThoughItsOwnerDied) {
  const auto object = put(*maker_.client, kMiB, 7);
  auto kept = other_.client->borrow(object->location()).value();
  store_.end(maker_);
  const auto third = store_.start(CallerId{3});
  auto passed_on = third.client->borrow(kept->location());
  ASSERT_TRUE(passed_on.ok());
  kept.reset();
  EXPECT_TRUE(holds(**passed_on, 7));
}

TEST_F(StoreClientTest, AnObjectThatEndedWithItsOwnerSaysSo) {
  const auto object = put(*maker_.client, kMiB, 7);
  const Location location = object->location();
  store_.end(maker_);
  const auto failed = other_.client->borrow(location);
  EXPECT_EQ(failed.error().code(), ErrorCode::kOwnerDied);
  EXPECT_NE(failed.error().to_string().find(to_string(CallerId{1})), std::string::npos) << failed.error().to_string();
}

// ---- On disk

TEST_F(StoreClientTest, AnObjectThatIsOutComesBackWhenItIsRead) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto kept = other_.client->borrow(object->location()).value();
  ASSERT_EQ(store_.spill(1), 1);
  EXPECT_FALSE(object->in_memory());
  EXPECT_EQ(store_.outside(), 1);
  EXPECT_TRUE(holds(*kept, 7));
  EXPECT_TRUE(object->in_memory());
  EXPECT_EQ(store_.outside(), 0);
  EXPECT_TRUE(holds(*object, 7));
}

TEST_F(StoreClientTest, WhatIsReadStaysInMemory) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto kept = other_.client->borrow(object->location()).value();
  for (const auto& each : {object, kept}) {
    auto view = each->read();
    EXPECT_EQ(store_.spill(1), 0);
    view->reset();
  }
  EXPECT_EQ(store_.spill(1), 1);
}

TEST_F(StoreClientTest, WhatWasReadLastLeavesLast) {
  std::vector<std::shared_ptr<Object>> objects;
  for (std::uint64_t i = 0; i < 4; ++i) objects.push_back(put(*maker_.client, 5 * kMiB, i));
  store_.ledger().advance();
  ASSERT_TRUE(holds(*objects[0], 0));
  for (std::size_t expected : {1, 2, 3, 0}) {
    ASSERT_EQ(store_.spill(1), 1);
    EXPECT_FALSE(objects[expected]->in_memory()) << expected;
  }
}

TEST_F(StoreClientTest, WhoReadsWhatIsLeavingCallsItBack) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto leaving = store_.book().choose_leaving(1);
  ASSERT_EQ(leaving.size(), 1);
  auto view = object->read();
  EXPECT_FALSE(store_.ledger().note_out(leaving[0].location.place));
  EXPECT_TRUE(holds((*view)->bytes(), 7));
}

TEST_F(StoreClientTest, WhatWasCalledBackDoesNotLeaveAgainBeforeWhatWasBegunHasEnded) {
  const auto object = put(*maker_.client, kMiB, 7);
  ASSERT_EQ(store_.book().choose_leaving(1).size(), 1);
  static_cast<void>(object->read());
  EXPECT_TRUE(store_.book().choose_leaving(1, {object->location().place}).empty());
  EXPECT_EQ(store_.book().choose_leaving(1).size(), 1);
}

TEST_F(StoreClientTest, AnObjectThatEndsWhileItIsLeavingEnds) {
  auto object = put(*maker_.client, kMiB, 7);
  const auto leaving = store_.book().choose_leaving(1);
  const auto slot = object->location().place.slot;
  object.reset();
  EXPECT_FALSE(store_.ledger().note_out(leaving[0].location.place));
  EXPECT_EQ(put(*maker_.client, kMiB, 8)->location().place.slot, slot);
}

TEST_F(StoreClientTest, MemoryOfWhatIsOutIsLentToOthersAndItsPlaceIsNot) {
  PlainStore store{64_MiB, 256_MiB};
  const auto maker = store.start(CallerId{1});
  std::vector<std::shared_ptr<Object>> objects{put(*maker.client, 60 * kMiB, 0)};
  for (std::uint64_t i = 1; i < 4; ++i) {
    ASSERT_EQ(maker.client->create(60 * kMiB).error().code(), ErrorCode::kExhausted);
    ASSERT_EQ(store.spill(1), 1);
    objects.push_back(put(*maker.client, 60 * kMiB, i));
    ASSERT_NE(objects.back(), nullptr);
  }
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(holds(*objects[i], i)) << i;
  EXPECT_EQ(store.outside(), 3);
  objects.clear();
  EXPECT_EQ(store.outside(), 0);
  maker.client->trim();
  EXPECT_EQ(store.book().census().slabs, 0);
  EXPECT_EQ(store.book().lent_memory(), 0);
}

TEST_F(StoreClientTest, ASlotWhoseObjectEndedOutsideIsNotUsedAgain) {
  std::vector<std::shared_ptr<Object>> objects;
  for (std::uint64_t i = 0; i < 4; ++i) objects.push_back(put(*maker_.client, kMiB, i));  // four objects in one slab
  ASSERT_EQ(store_.spill(1), 1);
  const auto slot = objects[0]->location().place.slot;
  ASSERT_FALSE(objects[0]->in_memory());
  objects.erase(objects.begin());
  EXPECT_EQ(store_.outside(), 0);
  for (std::uint64_t i = 0; i < 8; ++i) {
    objects.push_back(put(*maker_.client, kMiB, 10 + i));
    EXPECT_NE(objects.back()->location().place.slot, slot);
  }
  objects.clear();
  maker_.client->trim();
  EXPECT_EQ(store_.book().census().slabs, 0);
}

// ---- Memory

TEST_F(StoreClientTest, MemoryThatIsFreeIsKeptUntilItIsTaken) {
  put(*maker_.client, 64 * kMiB, 1);
  EXPECT_EQ(store_.book().idle_bytes(), 0);
  maker_.client->trim();
  EXPECT_EQ(store_.book().idle_bytes(), 64 * kMiB);
  EXPECT_EQ(store_.book().lent_memory(), 0);
  const auto idle = store_.book().take_idle(1);
  ASSERT_EQ(idle.size(), 1);
  EXPECT_EQ(idle[0].memory, 64 * kMiB);
  EXPECT_TRUE(store_.book().take_idle(1).empty());
  EXPECT_EQ(store_.book().memory(), 64 * kMiB) << "it is there until it is released";
  store_.book().released(idle[0]);
  EXPECT_EQ(store_.book().memory(), 0);
}

TEST_F(StoreClientTest, MemoryThatIsFreeIsLentAgain) {
  const auto first = put(*maker_.client, 64 * kMiB, 1)->location();
  maker_.client->trim();
  const auto again = put(*other_.client, 64 * kMiB, 2);
  EXPECT_EQ(store_.book().memory(), 64 * kMiB);
  EXPECT_EQ(store_.ledger().slot(again->location().place.slot).offset.load(),
            store_.ledger().slot(first.place.slot).offset.load());
}

TEST_F(StoreClientTest, AnObjectOfAnotherNodeIsBroughtWhenItIsReadAndGoneWithItsLastShare) {
  const Location there{{CallerId{50}, 1}, {}, CallerId{50}, NodeId{2}};
  std::vector<std::byte> bytes(8 * kMiB);
  fill(bytes, 7);
  store_.put_elsewhere(there.id, bytes);
  auto object = maker_.client->borrow(there);
  ASSERT_TRUE(object.ok()) << object.error().to_string();
  EXPECT_FALSE((*object)->in_memory());
  EXPECT_EQ(store_.book().memory(), 0);
  EXPECT_TRUE(holds(**object, 7));
  EXPECT_EQ(store_.book().memory(), 8 * kMiB);
  EXPECT_TRUE(holds(*other_.client->borrow((*object)->location()).value(), 7));
  object = Error{ErrorCode::kNotFound, "let go"};
  EXPECT_TRUE(store_.book().reclaim());
  EXPECT_EQ(store_.book().census().slabs, 0);
  EXPECT_EQ(maker_.client->borrow(there).error().code(), ErrorCode::kObjectLost);
}

TEST_F(StoreClientTest, OneThatComesFindsTheMemoryOfOneThatHasEnded) {
  const auto import = [&](std::uint64_t number) {
    const Location there{{CallerId{50}, number}, {}, CallerId{50}, NodeId{2}};
    std::vector<std::byte> bytes(8 * kMiB);
    fill(bytes, number);
    store_.put_elsewhere(there.id, bytes);
    return maker_.client->borrow(there).value();
  };
  EXPECT_TRUE(holds(*import(1), 1));
  store_.book().reclaim();
  const auto second = import(2);
  EXPECT_EQ(store_.book().memory(), 8 * kMiB) << "it has it, though nothing has come yet";
  EXPECT_EQ(store_.book().idle_bytes(), 8 * kMiB);
  // The node may still take this idle memory for another use.
  const auto taken = store_.book().take_idle(1);
  ASSERT_EQ(taken.size(), 1);
  store_.book().released(taken[0]);
  EXPECT_EQ(store_.book().memory(), 0);
  EXPECT_TRUE(holds(*second, 2));
  EXPECT_EQ(store_.book().memory(), 8 * kMiB);
}

TEST_F(StoreClientTest, AProcessHasOneTableAndTablesAreUsedAgain) {
  EXPECT_EQ(store_.book().open(CallerId{1}).error().code(), ErrorCode::kAlreadyExists);
  for (std::uint64_t i = 3; i <= PlainStore::kTables; ++i) ASSERT_TRUE(store_.book().open(CallerId{i}).ok());
  EXPECT_EQ(store_.book().open(CallerId{100}).error().code(), ErrorCode::kExhausted);
  store_.end(other_);
  EXPECT_TRUE(store_.book().open(CallerId{100}).ok());
}

TEST_F(StoreClientTest, WhatAProcessCannotHaveIsNotGivenBack) {
  const auto object = put(*maker_.client, kMiB, 7);
  const auto slot = object->location().place.slot;
  store_.book().give_back(other_.table, slot);
  store_.book().give_back(maker_.table, 12345);
  EXPECT_EQ(store_.book().census().objects, 1);
  EXPECT_EQ(store_.book().lease(77, kSlotBytesMin).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(store_.book().lease(maker_.table, 12345).error().code(), ErrorCode::kInvalidArgument);
}

/// Lends slabs that do not exist.
class Liar final : public StoreNode {
 public:
  explicit Liar(const Slab& slab) : slab_{slab} {}
  Result<Slab> lease(std::uint64_t slot_bytes) override {
    Slab slab = slab_;
    slab.slot_bytes = slot_bytes;
    return slab;
  }
  void give_back(std::uint32_t) override {}
  Result<void> bring(const Location&) override { return {}; }
  Result<Location> import(const Location& location) override { return lost(location); }

 private:
  const Slab slab_;
};

TEST_F(StoreClientTest, ASlabThatLiesOutsideOfTheStoreIsRefused) {
  std::vector<std::byte> objects(64 << 20);
  const std::uint32_t slots = store_.ledger().slots();
  for (const Slab& slab : {Slab{64 << 20, 0, 0, 1}, Slab{~std::uint64_t{0}, 0, 0, 1}, Slab{0, 0, slots, 1},
                           Slab{0, 0, slots - 1, 2}, Slab{0, 0, 0, ~std::uint32_t{0}}, Slab{0, 0, 0, 0}}) {
    const auto liar = std::make_shared<Liar>(slab);
    const auto client =
        StoreClient::make({CallerId{9}, NodeId{1}}, 5, std::make_unique<PlainMemory>(store_.ledger(), objects), liar);
    EXPECT_EQ(client->create(kMiB).error().code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace pharos::object_store
