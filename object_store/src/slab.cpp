#include <algorithm>
#include <bit>

#include <pharos/object_store/slab.hpp>

namespace pharos::object_store {
namespace {

constexpr std::uint64_t kSlabBytes = std::uint64_t{4} << 20;  // the size of slabs with more than one slot
constexpr std::uint64_t kObjectBytesMax = std::uint64_t{1} << 60;

}  // namespace

ByteCount whole_slab_units(ByteCount bytes) {
  return ByteCount{(bytes.bytes() + kSlabUnit - 1) / kSlabUnit * kSlabUnit};
}

std::uint64_t slot_bytes_for(std::uint64_t bytes) {
  bytes = std::clamp(bytes, kSlotBytesMin, kObjectBytesMax);
  const std::uint64_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

bool is_slot_size(std::uint64_t slot_bytes) {
  return slot_bytes >= kSlotBytesMin && slot_bytes_for(slot_bytes) == slot_bytes;
}

std::uint32_t slots_of_slab(std::uint64_t slot_bytes) {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(kSlabBytes / slot_bytes, 1));
}

}  // namespace pharos::object_store
