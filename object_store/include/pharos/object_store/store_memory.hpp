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
/// the process's StoreClient. Any thread may call it, but calls for one slab must not overlap. End: the destructor
/// unmaps everything, so the ledger and all spans and addresses from here are invalid afterwards.
class StoreMemory {
 public:
  virtual ~StoreMemory() = default;

  virtual const ObjectLedger& ledger() const = 0;
  virtual std::span<const std::byte> objects() const = 0;
  /// Makes a slab writable until close(), and returns the address of its first slot. Returns kCorrupt if the slab lies
  /// outside of the objects' file, and an errno error if the system does not map it.
  virtual Result<std::byte*> open(const Slab& slab) = 0;
  virtual void close(const Slab& slab) = 0;
  /// Gives storage to these bytes of an open slab, so that writing to them cannot fail. Returns kExhausted if the
  /// system has no memory.
  virtual Result<void> provide(const Slab& slab, std::uint64_t begin, std::uint64_t bytes) = 0;
  /// Enters memory that has storage into the page tables, so that the first access is fast. Failure has no effect.
  virtual void populate(std::span<std::byte> memory) = 0;
  /// Gives storage to the first `pins` pins of a table. Returns kExhausted if the system has no memory.
  virtual Result<void> provide_pins(std::uint32_t table, std::uint32_t pins) = 0;
};

/// Maps the two files that the node has made: the ledger, and the contents of the objects. Called by LargeValues.
/// Returns kCorrupt if a file is not sealed or the ledger is not one, and an errno error if the system does not map
/// them.
Result<std::unique_ptr<StoreMemory>> map_store(Fd ledger, Fd objects);

}  // namespace pharos::object_store
