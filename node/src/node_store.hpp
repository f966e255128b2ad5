#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/lender.hpp>
#include <pharos/object_store/shared_file.hpp>
#include <pharos/object_store/spill_file.hpp>

namespace pharos::node {

/// A node's object store: its memory, and who has what of it. Shared by the node's strand and what that runs aside; the
/// strand's but for the files and the ledger.
struct NodeStore {
  /// Of 0 bytes: as much as the machine has to spare.
  static Result<std::shared_ptr<NodeStore>> make(ByteCount capacity);

  /// A process, or another node, that will use it: the number of its table, which has room for some pins.
  Result<std::uint32_t> open(CallerId whose);
  /// Slots that were lent just now, before anybody writes there.
  Result<void> provide_slots(std::uint32_t first, std::uint32_t count) const;
  /// All objects, in this process's memory.
  Result<std::span<std::byte>> bytes();

  object_store::SharedFile ledger_file;
  object_store::Mapping ledger_memory;
  object_store::SharedFile objects;
  object_store::Ledger ledger;
  object_store::Lender lender;
  std::unique_ptr<object_store::SpillFile> disk = nullptr;  ///< made when it is first needed
  std::optional<object_store::Mapping> mapped{};            ///< the same
};

/// Pins that the node itself has: for another node, or for what it does itself. The strand's.
class NodePins {
 public:
  static Result<NodePins> open(std::shared_ptr<NodeStore> store, CallerId whose);

  struct Pin {
    std::uint32_t number;
    object_store::Ledger::Pinned object;
  };
  /// None: the object has ended. kExhausted: there are too many.
  Result<std::optional<Pin>> take(object_store::PinKind kind, const object_store::Location& object);
  void drop(std::uint32_t pin);
  std::uint32_t table() const { return table_; }
  /// Whoever they were for is no more.
  void close();

 private:
  NodePins(std::shared_ptr<NodeStore> store, std::uint32_t table) : store_{std::move(store)}, table_{table} {}

  std::shared_ptr<NodeStore> store_;
  std::uint32_t table_;
  std::vector<std::uint32_t> free_;
  std::uint32_t pins_ = 0;  // those from here on have never been used
};

}  // namespace pharos::node
