#include "store/node_store.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace pharos::node {
namespace {

using object_store::Mapping;
using object_store::ObjectLedger;
using object_store::SharedFile;

constexpr std::uint32_t kTables = 1024;       // processes and nodes that use the store at once
constexpr std::uint32_t kPinsAtFirst = 4088;  // pins of a new table: as many as end with a page

// There are more addresses than memory, for objects that are on disk or at other nodes. Addresses cost nothing.
constexpr std::uint64_t kAddressesOverCapacity = 16;
constexpr std::uint64_t kAddressesMin = std::uint64_t{64} << 30;

// Takes as many addresses as the processes of this machine may have.
ByteCount addresses_for(ByteCount capacity) {
  std::uint64_t bytes = std::max(capacity.bytes() * kAddressesOverCapacity, kAddressesMin);
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur / 4);
  }
  return std::max(object_store::whole_slab_units(ByteCount{bytes}), capacity);
}

}  // namespace

Result<std::shared_ptr<NodeStore>> NodeStore::make(ByteCount capacity) {
  if (capacity == ByteCount{}) capacity = object_store::default_capacity();
  const ByteCount addresses = addresses_for(capacity);
  const auto slots = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(addresses.bytes() / object_store::kSlotBytesMin, std::uint64_t{1} << 31));
  const ByteCount ledger_bytes{ObjectLedger::bytes_for(slots, kTables)};
  PHAROS_TRY(SharedFile ledger_file, SharedFile::make("pharos-ledger", ledger_bytes));
  PHAROS_TRY(SharedFile objects, SharedFile::make("pharos-objects", addresses));
  PHAROS_TRY(Mapping ledger_memory,
             Mapping::make(ledger_file, 0, ledger_bytes.bytes(), Mapping::Access::kReadAndWrite));
  PHAROS_TRY_VOID(ledger_file.allocate(0, 4096));
  const ObjectLedger ledger = ObjectLedger::format(ledger_memory.memory(), slots, kTables);
  return std::make_shared<NodeStore>(NodeStore{std::move(ledger_file), std::move(ledger_memory), std::move(objects),
                                               ledger, object_store::StoreBook{ledger, capacity, addresses}});
}

Result<std::uint32_t> NodeStore::open(CallerId whose) {
  PHAROS_TRY(const std::uint32_t table, book.open(whose));
  const auto stretch = ledger.stretch_of_pins(table, kPinsAtFirst);
  if (auto allocated = ledger_file.allocate(stretch.begin, stretch.bytes); !allocated) {
    static_cast<void>(book.process_ended(table));
    return std::move(allocated).error();
  }
  return table;
}

Result<void> NodeStore::provide_slots(const object_store::Slab& slab) const {
  for (const ObjectLedger::Stretch& entries : ledger.stretches_of(slab)) {
    PHAROS_TRY_VOID(ledger_file.allocate(entries.begin, entries.bytes));
  }
  return {};
}

void NodeStore::release(std::uint64_t offset, std::uint64_t bytes) const {
  objects.release(offset, bytes);
  ledger.releases().note(offset, bytes);
}

Result<std::span<std::byte>> NodeStore::bytes() {
  if (!mapped) {
    PHAROS_TRY(mapped, Mapping::make(objects, 0, objects.length().bytes(), Mapping::Access::kReadAndWrite));
  }
  return mapped->memory();
}

// ---- NodePins

Result<NodePins> NodePins::open(std::shared_ptr<NodeStore> store, CallerId whose) {
  PHAROS_TRY(const std::uint32_t table, store->open(whose));
  return NodePins{std::move(store), table};
}

Result<std::optional<NodePins::Pin>> NodePins::take(object_store::PinKind kind, const object_store::Location& object) {
  if (free_.empty()) {
    if (pins_ == object_store::kPinsMax) {
      return Error{ErrorCode::kExhausted, "another node uses " + std::to_string(pins_) +
                                              " objects of this node at once, which is the maximum"};
    }
    if (pins_ >= kPinsAtFirst && pins_ % kPinsAtFirst == 0) {
      const auto stretch =
          store_->ledger.stretch_of_pins(table_, std::min(pins_ + kPinsAtFirst, object_store::kPinsMax));
      PHAROS_TRY_VOID(store_->ledger_file.allocate(stretch.begin, stretch.bytes));
    }
    free_.push_back(pins_++);
  }
  const std::uint32_t number = free_.back();
  const auto pinned = store_->ledger.pin(table_, number, kind, object);
  if (!pinned) return std::optional<Pin>{};
  free_.pop_back();
  return std::optional{Pin{number, *pinned}};
}

void NodePins::drop(std::uint32_t pin) {
  store_->ledger.unpin(table_, pin);
  free_.push_back(pin);
}

void NodePins::close() {
  // A node is neither heir nor holder of an object, so there are no unclaimed results to care for.
  static_cast<void>(store_->book.process_ended(table_));
  free_.clear();
  pins_ = 0;
}

}  // namespace pharos::node
