#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <pharos/object_store/store_book.hpp>
#include <pharos/object_store/store_client.hpp>

namespace pharos::object_store {

inline constexpr std::uint64_t kMiB = 1 << 20;

/// Store memory that is fully mapped from the beginning. The "processes" that use it are threads or plain C++ objects.
class PlainMemory final : public StoreMemory {
 public:
  PlainMemory(const ObjectLedger& ledger, std::span<std::byte> objects) : ledger_{ledger}, objects_{objects} {}

  const ObjectLedger& ledger() const override { return ledger_; }
  std::span<const std::byte> objects() const override { return objects_; }
  Result<std::byte*> open(const Slab& slab) override { return objects_.data() + slab.offset; }
  void close(const Slab&) override {}
  Result<void> provide(const Slab&, std::uint64_t, std::uint64_t) override { return {}; }
  void populate(std::span<std::byte>) override {}
  Result<void> provide_pins(std::uint32_t, std::uint32_t) override { return {}; }

 private:
  const ObjectLedger ledger_;
  const std::span<std::byte> objects_;
};

/// A whole store in this process: the node's side, and up to kTables clients.
class PlainStore {
 public:
  static constexpr std::uint32_t kTables = 8;

  explicit PlainStore(ByteCount capacity) : PlainStore{capacity, capacity} {}
  PlainStore(ByteCount capacity, ByteCount addresses)
      : ledger_memory_{allocate(ObjectLedger::bytes_for(slots_for(addresses), kTables))},
        objects_memory_{allocate(addresses.bytes())},
        objects_{objects_memory_.get(), addresses.bytes()},
        ledger_{ObjectLedger::format({ledger_memory_.get(), ObjectLedger::bytes_for(slots_for(addresses), kTables)},
                                     slots_for(addresses), kTables)},
        node_{std::make_shared<Direct>(ledger_, capacity, addresses, objects_)} {}

  struct Process {
    std::uint32_t table = 0;
    std::shared_ptr<StoreNode> node;
    std::shared_ptr<StoreClient> client;
  };
  Process start(CallerId id) {
    Process process;
    {
      const std::lock_guard lock{node_->mutex};
      process.table = node_->book.open(id).value();
    }
    process.node = std::make_shared<Leasing>(node_, process.table);
    process.client = StoreClient::make({id, NodeId{1}}, process.table, std::make_unique<PlainMemory>(ledger_, objects_),
                                       process.node);
    return process;
  }
  /// Simulates the end of the process. Its C++ objects that still exist here have no effect on the store any more.
  void end(const Process& process) {
    process.client->abandon();
    const std::lock_guard lock{node_->mutex};
    const auto left = node_->book.process_ended(process.table);
    unclaimed_.insert(unclaimed_.end(), left.begin(), left.end());
  }
  /// Adds an object that another node has.
  void put_elsewhere(const ObjectId& id, std::vector<std::byte> bytes) {
    const std::lock_guard lock{node_->mutex};
    node_->elsewhere.insert_or_assign(id, std::move(bytes));
  }
  /// Lets go the results whose makers have ended and which no heir has taken over.
  void end_unclaimed() {
    const std::lock_guard lock{node_->mutex};
    node_->book.end_unclaimed(std::exchange(unclaimed_, {}));
  }
  /// Moves objects to the simulated disk until their slots have `bytes` bytes. Returns the number of objects moved.
  std::size_t spill(std::uint64_t bytes) {
    const std::lock_guard lock{node_->mutex};
    return node_->spill(bytes);
  }
  /// Number of objects on the simulated disk.
  std::size_t outside() {
    const std::lock_guard lock{node_->mutex};
    for (const Place& place : node_->book.end_outside()) node_->disk.erase(place);
    return node_->disk.size();
  }
  StoreBook& book() { return node_->book; }
  const ObjectLedger& ledger() const { return ledger_; }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const { ::munmap(memory, bytes); }
  };
  using Memory = std::unique_ptr<std::byte[], Unmap>;
  static Memory allocate(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return Memory{static_cast<std::byte*>(memory), Unmap{bytes}};
  }
  static std::uint32_t slots_for(ByteCount capacity) {
    return static_cast<std::uint32_t>(capacity.bytes() / kSlotBytesMin);
  }

  struct Direct {
    Direct(const ObjectLedger& its, ByteCount capacity, ByteCount addresses, std::span<std::byte> memory)
        : ledger{its}, objects{memory}, book{ledger, capacity, addresses} {}

    // If a reader has called the object back and it has ended, its memory may belong to another object during this
    // copy. The caller then discards the copy, so the race is harmless and hidden from the thread sanitizer.
    __attribute__((no_sanitize("thread"))) static std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
      std::vector<std::byte> copy(bytes.size());
      std::byte* const to = copy.data();
      const volatile std::byte* const from = bytes.data();  // byte by byte, as the thread sanitizer intercepts memcpy()
      for (std::size_t i = 0; i < bytes.size(); ++i) to[i] = from[i];
      return copy;
    }
    std::size_t spill(std::uint64_t bytes) {
      std::size_t count = 0;
      for (const StoreBook::Body& body : book.choose_leaving(bytes)) {
        const auto there = objects.subspan(body.offset, body.size);
        std::vector<std::byte> copy = copy_of(there);
        if (!ledger.note_out(body.location.place)) continue;
        std::memset(objects.data() + body.offset, 0xEE, body.slot_bytes);
        disk.insert_or_assign(body.location.place, std::move(copy));
        book.left(body.location.place);
        ++count;
      }
      return count;
    }
    Result<void> bring(const Location& location) {
      const Place place = location.place;
      if (!ledger.has(location)) return lost(location, !book.has_process(location.owner));
      auto body = book.begin_return(place);
      if (!body && body.error().code() == ErrorCode::kNotFound) return {};
      if (!body) {
        spill(body.error().code() == ErrorCode::kExhausted ? ledger.slot(place.slot).size.load() * 9 / 8 : 0);
        body = book.begin_return(place);
        if (!body) return body.error();
      }
      const auto copy = disk.extract(place);
      std::memcpy(objects.data() + body->offset, copy.mapped().data(), body->size);
      ledger.note_back(place);
      return {};
    }
    Result<Location> import(const Location& location) {
      const auto bytes = elsewhere.extract(location.id);
      if (bytes.empty()) return lost(location);
      PHAROS_TRY(const Place place, book.lend_outside(location.id, bytes.mapped().size(), "elsewhere"));
      disk.insert_or_assign(place, std::move(bytes.mapped()));
      ledger.let_go(place);  // the process that asked keeps it before reclaim() runs
      return Location{location.id, place, location.owner, NodeId{1}};
    }
    std::mutex mutex;
    const ObjectLedger ledger;
    const std::span<std::byte> objects;
    StoreBook book;
    std::map<Place, std::vector<std::byte>> disk;
    std::map<ObjectId, std::vector<std::byte>> elsewhere;  // objects that other nodes have
  };
  class Leasing final : public StoreNode {
   public:
    Leasing(std::shared_ptr<Direct> direct, std::uint32_t table) : direct_{std::move(direct)}, table_{table} {}
    Result<Slab> lease(std::uint64_t slot_bytes) override {
      const std::lock_guard lock{direct_->mutex};
      direct_->book.reclaim();
      return direct_->book.lease(table_, slot_bytes);
    }
    void give_back(std::uint32_t first_slot) override {
      const std::lock_guard lock{direct_->mutex};
      direct_->book.give_back(table_, first_slot);
    }

    Result<void> bring(const Location& location) override {
      const std::lock_guard lock{direct_->mutex};
      return direct_->bring(location);
    }
    Result<Location> import(const Location& location) override {
      const std::lock_guard lock{direct_->mutex};
      return direct_->import(location);
    }

   private:
    const std::shared_ptr<Direct> direct_;
    const std::uint32_t table_;
  };

  const Memory ledger_memory_;
  const Memory objects_memory_;
  const std::span<std::byte> objects_;
  const ObjectLedger ledger_;
  const std::shared_ptr<Direct> node_;
  std::vector<StoreBook::Unclaimed> unclaimed_;
};

/// Fills an object with words that count up from `number`.
inline void fill(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number) {
    const std::uint64_t word = number + at;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}
inline bool holds(std::span<const std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != number + at) return false;
  }
  return true;
}
inline bool holds(Object& object, std::uint64_t number) {
  const auto view = object.read();
  return view.ok() && holds((*view)->bytes(), number);
}
inline std::shared_ptr<Object> put(StoreClient& client, std::size_t bytes, std::uint64_t number, CallerId heir = {}) {
  auto object = client.create(bytes, heir);
  if (!object) return nullptr;
  fill(object->bytes(), number);
  return std::move(*object).seal();
}

}  // namespace pharos::object_store
