#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/manual_executor.hpp>

#include "bare_host.hpp"
#include "store/node_store.hpp"
#include "store/store_work.hpp"

namespace pharos::node {

/// A store of 16 MiB, in which tests make objects as a process would.
class StoreTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCapacity = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kObjectBytes = std::uint64_t{4} << 20;  // a slab of its own

  StoreTest()
      : store_{NodeStore::make(ByteCount{kCapacity}).value()},
        work_{store_, [this](auto work, auto done) { host_.run_blocking(std::move(work), std::move(done)); }},
        table_{store_->open(CallerId{7}).value()} {}

  /// Makes an object of kObjectBytes, which the process holds.
  object_store::Location make_object() {
    const auto slab = store_->book.lease(table_, kObjectBytes).value();
    EXPECT_TRUE(store_->provide_slots(slab));
    EXPECT_TRUE(store_->objects.allocate(slab.offset, slab.slot_bytes));
    const ObjectId id{CallerId{7}, ++last_number_};
    const auto place = store_->ledger.begin(slab.first_slot, id, kObjectBytes, {});
    std::memset(store_->bytes()->data() + slab.offset, static_cast<int>(last_number_), kObjectBytes);
    store_->ledger.note_provided(place.slot, slab.slot_bytes);
    store_->ledger.seal(place);
    return {id, place, CallerId{7}, NodeId{1}};
  }
  /// Returns whether the object is in memory, as its maker wrote it.
  bool is_whole(const object_store::Location& object) const {
    const auto offset = store_->ledger.slot(object.place.slot).offset.load();
    const std::vector<std::byte> right(kObjectBytes, static_cast<std::byte>(object.id.number));
    return std::memcmp(store_->bytes()->data() + offset, right.data(), right.size()) == 0;
  }
  std::uint64_t releases(const object_store::Location& object) const {
    return store_->ledger.releases().of(store_->ledger.slot(object.place.slot).offset.load(), kObjectBytes);
  }
  object_store::SlotState state_of(const object_store::Location& object) const {
    return store_->ledger.word_of(object.place.slot).state;
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  const std::shared_ptr<NodeStore> store_;
  StoreWork work_;
  const std::uint32_t table_;
  std::uint64_t last_number_ = 0;
};

/// The other end of each Peer of a test.
class Ignores final : public net::Peer::Owner {
 public:
  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override {}
};

}  // namespace pharos::node
