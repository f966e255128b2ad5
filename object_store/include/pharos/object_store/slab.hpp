#pragma once

#include <cstdint>

#include <pharos/base/byte_count.hpp>

namespace pharos::object_store {

/// A stretch of the store's memory that one process may write to: slots of one size, one behind the other.
struct Slab {
  std::uint64_t offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t first_slot = 0;  ///< number in the ledger; the others follow
  std::uint32_t slots = 0;

  std::uint64_t bytes() const { return slot_bytes * slots; }
};

/// Slabs begin at multiples of this, so that they can lie in huge pages.
inline constexpr std::uint64_t kSlabUnit = std::uint64_t{2} << 20;
ByteCount whole_slab_units(ByteCount bytes);

/// No slot is smaller: less is not worth a slot of its own.
inline constexpr std::uint64_t kSlotBytesMin = std::uint64_t{128} << 10;

/// The size of slot that an object of so many bytes gets: eight sizes between a power of two and the next, so that
/// slots are used again by objects of about the same size, and at most an eighth is left unused.
std::uint64_t slot_bytes_for(std::uint64_t bytes);
bool is_slot_size(std::uint64_t slot_bytes);

/// How many slots of that size are leased at once: some of small ones, one of a large one.
std::uint32_t slots_of_slab(std::uint64_t slot_bytes);

}  // namespace pharos::object_store
