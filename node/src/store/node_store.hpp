#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/shared_file.hpp>
#include <pharos/object_store/spill_file.hpp>
#include <pharos/object_store/store_book.hpp>

namespace pharos::node {

/// The memory of a node's object store, and the books of which process has what of it. Shared by the parts of
/// StoreService and by the work that they run on other threads. Used on the node's strand only, except for the files
/// and the ledger, which any thread may use. The memory is freed with the last share and the last process that has it.
struct NodeStore {
  /// Makes a store. A capacity of 0 bytes means object_store::default_capacity(). Fails with an error of the system.
  static Result<std::shared_ptr<NodeStore>> make(ByteCount capacity);

  /// Opens a pin table for a process or another node, and returns its number. The table has room for the first pins.
  /// kExhausted if there is no free table, or no memory for it.
  Result<std::uint32_t> open(CallerId whose);
  /// Gives storage to the ledger entries of a slab that was leased just now, before anyone writes to them. Fails if the
  /// machine has no memory for them.
  Result<void> provide_slots(const object_store::Slab& slab) const;
  /// Takes the storage of a stretch of the objects' file away, and tells the processes that have mapped it.
  void release(std::uint64_t offset, std::uint64_t bytes) const;
  /// The memory of all objects, mapped into this process. Valid as long as the store. Fails if the system does not map
  /// it.
  Result<std::span<std::byte>> bytes();

  object_store::SharedFile ledger_file;
  object_store::Mapping ledger_memory;
  object_store::SharedFile objects;
  object_store::ObjectLedger ledger;
  object_store::StoreBook book;
  std::unique_ptr<object_store::SpillFile> disk = nullptr;  ///< made when it is first needed
  std::optional<object_store::Mapping> mapped{};            ///< made by bytes() when it is first needed
};

/// Pins that the node itself has in the ledger, for another node or for its own work. Owned by ExportedObjects and
/// ImportedObjects. Used on the node's strand only. At most kPinsMax pins. close() drops all of them; the destructor
/// does not.
class NodePins {
 public:
  static Result<NodePins> open(std::shared_ptr<NodeStore> store, CallerId whose);

  struct Pin {
    std::uint32_t number;
    object_store::ObjectLedger::Pinned object;
  };
  /// Pins an object. Returns nullopt if the object has ended; kExhausted if there are too many pins, or no memory for
  /// more.
  Result<std::optional<Pin>> take(object_store::PinKind kind, const object_store::Location& object);
  /// Drops a pin that was taken and not dropped.
  void drop(std::uint32_t pin);
  std::uint32_t table() const { return table_; }
  /// The node that the pins were for is gone: drops all pins and the table. Nothing may be called after that.
  void close();

 private:
  NodePins(std::shared_ptr<NodeStore> store, std::uint32_t table) : store_{std::move(store)}, table_{table} {}

  std::shared_ptr<NodeStore> store_;
  std::uint32_t table_;
  std::vector<std::uint32_t> free_;
  std::uint32_t pins_ = 0;  // pins from this number on have never been used
};

}  // namespace pharos::node
