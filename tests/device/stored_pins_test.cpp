// What is registered with the driver of the GPUs, when an object's memory becomes another one's.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pharos/ml/stored_pins.hpp>
#include <pharos/object_store/store_client.hpp>

#include "store/node_store.hpp"

namespace pharos::ml {
namespace {

using object_store::Location;
using object_store::Object;
using object_store::Slab;
using object_store::StoreClient;
using object_store::View;

constexpr std::size_t kObjectBytes = (std::size_t{1} << 20) - 100;
constexpr std::size_t kSlotBytes = std::size_t{1} << 20;

/// What the driver was told.
struct Driver {
  std::vector<const std::byte*> pinned;
  std::size_t pins = 0;
  std::size_t pinned_bytes = 0;
  bool refuses = false;
} driver;

bool pin(std::span<const std::byte> memory) {
  if (driver.refuses) return false;
  driver.pinned.push_back(memory.data());
  driver.pinned_bytes = memory.size();
  ++driver.pins;
  return true;
}

void unpin(std::span<const std::byte> memory) {
  EXPECT_EQ(std::erase(driver.pinned, memory.data()), 1U) << "the driver does not know this memory";
}

/// A node's store without the node, and this process as the only one that uses it.
class StoredPinsTest : public testing::Test, public object_store::StoreNode {
 protected:
  StoredPinsTest() {
    driver = {};
    detail::register_host_memory({.pin = &pin, .unpin = &unpin});
    client_ = StoreClient::make(
        {CallerId{1}, NodeId{1}}, table_,
        object_store::map_store(Fd{::dup(store_->ledger_file.fd())}, Fd{::dup(store_->objects.fd())}).value(), node_);
  }
  ~StoredPinsTest() override {
    client_ = nullptr;
    EXPECT_TRUE(driver.pinned.empty()) << "the store is unmapped";
    detail::register_host_memory({});
  }

  Result<Slab> lease(std::uint64_t slot_bytes) override {
    PHAROS_TRY(const Slab slab, store_->book.lease(table_, slot_bytes));
    PHAROS_TRY_VOID(store_->provide_slots(slab));
    return slab;
  }
  void give_back(std::uint32_t first_slot) override { store_->book.give_back(table_, first_slot); }
  Result<void> bring(const Location&) override { return not_here(); }
  Result<Location> import(const Location&) override { return not_here(); }

  /// An object that is read.
  struct Read {
    std::shared_ptr<Object> object;
    std::shared_ptr<const View> view = object->read().value();

    std::span<const std::byte> bytes() const { return view->bytes(); }
  };
  Read make_object() {
    auto writable = client_->create(kObjectBytes).value();
    std::memset(writable.bytes().data(), 1, kObjectBytes);
    return {std::move(writable).seal()};
  }
  /// The node takes all memory that nobody uses.
  void take_free_memory() {
    client_->trim();
    for (const auto& idle : store_->book.take_idle(kSlotBytes * 100)) {
      store_->release(idle.offset, idle.bytes);
      store_->book.released(idle);
    }
  }

  std::shared_ptr<node::NodeStore> store_ = node::NodeStore::make(ByteCount{std::uint64_t{64} << 20}).value();
  const std::uint32_t table_ = store_->open(CallerId{1}).value();
  const std::shared_ptr<StoreNode> node_{this, [](StoreNode*) {}};
  std::shared_ptr<StoreClient> client_;

 private:
  static Error not_here() { return {ErrorCode::kUnavailable, "this store has no disk and no neighbours"}; }
};

TEST_F(StoredPinsTest, AnObjectIsRegisteredOnceInWholePages) {
  const Read object = make_object();
  for (const auto part : {object.bytes().subspan(5, 10), object.bytes(), object.bytes().last(1)}) {
    EXPECT_NE(pin_stored(part), nullptr);
  }
  EXPECT_EQ(driver.pinned, std::vector{object.bytes().data()});
  EXPECT_EQ(driver.pinned_bytes, kSlotBytes);
  EXPECT_EQ(driver.pins, 1U);
}

TEST_F(StoredPinsTest, ALaterObjectInTheSameMemoryFindsItRegistered) {
  const std::byte* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Read object = make_object();
    if (first == nullptr) first = object.bytes().data();
    ASSERT_EQ(object.bytes().data(), first);
    EXPECT_NE(pin_stored(object.bytes()), nullptr);
  }
  EXPECT_EQ(driver.pins, 1U);
}

TEST_F(StoredPinsTest, WhatHasOtherPagesThanBeforeIsRegisteredAnew) {
  const std::byte* first = nullptr;
  for (std::size_t i = 1; i <= 3; ++i) {
    {
      const Read object = make_object();
      if (first == nullptr) first = object.bytes().data();
      ASSERT_EQ(object.bytes().data(), first);
      EXPECT_NE(pin_stored(object.bytes()), nullptr);
      EXPECT_EQ(driver.pins, i);
      EXPECT_EQ(driver.pinned.size(), 1U);
    }
    take_free_memory();
  }
}

TEST_F(StoredPinsTest, WhatIsInUseStaysRegistered) {
  const Read object = make_object();
  const Read neighbour = make_object();
  Pin pin = pin_stored(object.bytes());
  const auto& slot = store_->ledger.slot(neighbour.object->location().place.slot);
  store_->release(slot.offset.load(), kSlotBytes);
  EXPECT_EQ(pin_stored(object.bytes()), pin) << "a GPU may be reading there";
  EXPECT_EQ(driver.pins, 1U);
  store_->release(slot.offset.load(), kSlotBytes);
  pin = nullptr;
  EXPECT_NE(pin_stored(object.bytes()), nullptr);
  EXPECT_EQ(driver.pins, 2U);
}

TEST_F(StoredPinsTest, OtherMemoryIsNotRegistered) {
  const std::vector<std::byte> other(kObjectBytes);
  EXPECT_EQ(pin_stored(other), nullptr);
  const Read object = make_object();
  driver.refuses = true;
  EXPECT_EQ(pin_stored(object.bytes()), nullptr);
  driver.refuses = false;
  EXPECT_NE(pin_stored(object.bytes()), nullptr);
  detail::register_host_memory({});
  EXPECT_EQ(pin_stored(object.bytes()), nullptr);
  detail::register_host_memory({.pin = &pin, .unpin = &unpin});
}

}  // namespace
}  // namespace pharos::ml
