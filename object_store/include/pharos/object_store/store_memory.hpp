#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/ledger.hpp>
#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {

/// The store's memory, as one process sees it: all of it to read, leased slabs to write. Any thread, but a slab's calls
/// one at a time.
class StoreMemory {
 public:
  virtual ~StoreMemory() = default;

  virtual const Ledger& ledger() const = 0;
  virtual std::span<const std::byte> objects() const = 0;
  /// Makes a slab writable, until close(); where its first slot lies.
  virtual Result<std::byte*> open(const Slab& slab) = 0;
  virtual void close(const Slab& slab) = 0;
  /// Makes sure that writing to these bytes of an open slab cannot fail. kExhausted: there is no memory.
  virtual Result<void> provide(const Slab& slab, std::uint64_t begin, std::uint64_t bytes) = 0;
  /// Makes it fast, too, for what is provided.
  virtual void populate(std::span<std::byte> memory) = 0;
  /// The same for so many pins of a table.
  virtual Result<void> provide_pins(std::uint32_t table, std::uint32_t pins) = 0;
};

/// Two files that the node has made, mapped: the ledger, and what the objects hold.
Result<std::unique_ptr<StoreMemory>> map_store(Fd ledger, Fd objects);

}  // namespace pharos::object_store
