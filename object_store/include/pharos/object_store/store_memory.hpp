#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/object_ledger.hpp>
#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {

/// The memory of the store as one process has mapped it: everything for reading, and leased slabs for writing. Owned by
/// the process's StoreClient. Any thread may call it, but calls for one slab must not overlap.
class StoreMemory {
 public:
  virtual ~StoreMemory() = default;

  virtual const ObjectLedger& ledger() const = 0;
  virtual std::span<const std::byte> objects() const = 0;
  /// Makes a slab writable until close(), and returns the address of its first slot.
  virtual Result<std::byte*> open(const Slab& slab) = 0;
  virtual void close(const Slab& slab) = 0;
  /// Gives storage to these bytes of an open slab, so that writing to them cannot fail. Returns kExhausted if the
  /// system has no memory.
  virtual Result<void> provide(const Slab& slab, std::uint64_t begin, std::uint64_t bytes) = 0;
  /// Enters memory that has storage into the page tables, so that the first access is fast.
  virtual void populate(std::span<std::byte> memory) = 0;
  /// Gives storage to the first `pins` pins of a table.
  virtual Result<void> provide_pins(std::uint32_t table, std::uint32_t pins) = 0;
};

/// Maps the two files that the node has made: the ledger, and the contents of the objects.
Result<std::unique_ptr<StoreMemory>> map_store(Fd ledger, Fd objects);

}  // namespace pharos::object_store
