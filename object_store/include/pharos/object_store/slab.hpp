#pragma once

#include <cstdint>

#include <pharos/base/byte_count.hpp>

namespace pharos::object_store {

/// A stretch of the store's memory that one process may write to: slots of one size, one behind the other. The unit in
/// which the node leases memory.
struct Slab {
  std::uint64_t offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t first_slot = 0;  ///< the number of the first slot in the ledger; the others follow
  std::uint32_t slots = 0;

  std::uint64_t bytes() const { return slot_bytes * slots; }
};

/// Slabs begin at multiples of this size, so that they can lie in huge pages.
inline constexpr std::uint64_t kSlabUnit = std::uint64_t{2} << 20;
ByteCount whole_slab_units(ByteCount bytes);

/// The smallest size of a slot; smaller slots are not worth their cost.
inline constexpr std::uint64_t kSlotBytesMin = std::uint64_t{128} << 10;

/// Returns the size of the slot for an object of this size, and at least kSlotBytesMin. There are eight sizes between a
/// power of two and the next one, so that slots are used again by objects of about the same size and at most an eighth
/// of a larger slot is unused. Pure, as the other functions here; for any thread.
std::uint64_t slot_bytes_for(std::uint64_t bytes);
bool is_slot_size(std::uint64_t slot_bytes);

/// Returns how many slots of this size one slab has: several if they are small, one if it is large.
std::uint32_t slots_of_slab(std::uint64_t slot_bytes);

}  // namespace pharos::object_store
