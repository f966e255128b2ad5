#include <algorithm>

#include <pharos/base/check.hpp>
#include <pharos/object_store/ledger.hpp>

namespace pharos::object_store {
namespace {

constexpr std::uint64_t kMagic = 0x7265676465'4c6850;
constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::uint64_t packed(SlotWord word) {
  return std::uint64_t{word.generation} << 32 | static_cast<std::uint64_t>(word.state);
}
SlotWord unpacked(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 32), static_cast<SlotState>(word & 3)};
}

// Never 0, which is no pin.
std::uint64_t pin_of(const Place& place) {
  return (std::uint64_t{place.slot} + 1) << 32 | place.generation;
}

}  // namespace

struct alignas(64) Ledger::Head {
  std::uint64_t magic;
  std::uint32_t slots;
  std::uint32_t tables;
  std::atomic<std::uint32_t> tables_used;  // tables from here on have never been opened
};

std::size_t Ledger::bytes_for(std::uint32_t slots, std::uint32_t tables) {
  return kPage + whole_pages(slots * sizeof(SlotHeader)) + tables * sizeof(PinTable);
}

Ledger::Ledger(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables)
    : head_{reinterpret_cast<Head*>(memory.data())},
      first_slot_{reinterpret_cast<SlotHeader*>(memory.data() + kPage)},
      first_table_{reinterpret_cast<PinTable*>(memory.data() + kPage + whole_pages(slots * sizeof(SlotHeader)))},
      slots_{slots},
      tables_{tables} {}

Ledger Ledger::format(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables) {
  PHAROS_CHECK(memory.size() >= bytes_for(slots, tables), memory.size(), slots, tables);
  const Ledger ledger{memory, slots, tables};
  ledger.head_->magic = kMagic;
  ledger.head_->slots = slots;
  ledger.head_->tables = tables;
  return ledger;
}

Result<Ledger> Ledger::attach(std::span<std::byte> memory) {
  const auto* const head = reinterpret_cast<const Head*>(memory.data());
  if (memory.size() < kPage || head->magic != kMagic) {
    return Error{ErrorCode::kCorrupt, "the object store's ledger does not look like one"};
  }
  const std::uint32_t slots = head->slots;
  const std::uint32_t tables = head->tables;
  if (memory.size() < bytes_for(slots, tables)) {
    return Error{ErrorCode::kCorrupt, "the object store's ledger is smaller than it says"};
  }
  return Ledger{memory, slots, tables};
}

SlotHeader& Ledger::slot(std::uint32_t number) const {
  PHAROS_CHECK(number < slots_, number, slots_);
  return first_slot_[number];
}

PinTable& Ledger::table(std::uint32_t number) const {
  PHAROS_CHECK(number < tables_, number, tables_);
  return first_table_[number];
}

SlotWord Ledger::word_of(std::uint32_t number) const {
  return unpacked(slot(number).word.load());
}

bool Ledger::pinned(std::uint32_t slot) const {
  const std::uint32_t tables = std::min(head_->tables_used.load(), tables_);
  for (std::uint32_t t = 0; t < tables; ++t) {
    const PinTable& pins = table(t);
    const std::uint32_t used = std::min(pins.used.load(), kPinsMax);
    for (std::uint32_t i = 0; i < used; ++i) {
      if (pins.pins[i].load() >> 32 == std::uint64_t{slot} + 1) return true;
    }
  }
  return false;
}

Place Ledger::begin(std::uint32_t number, const ObjectId& id, std::uint64_t size, CallerId heir) const {
  SlotHeader& header = slot(number);
  const SlotWord word = unpacked(header.word.load());
  PHAROS_CHECK(word.state == SlotState::kFree, number, static_cast<int>(word.state));
  // Before the rest: if this process dies from here on, the slot is found half-written.
  header.word.store(packed({word.generation, SlotState::kWriting}));
  header.holder.store(id.maker.value(), std::memory_order_relaxed);
  header.heir.store(heir.value(), std::memory_order_relaxed);
  header.maker.store(id.maker.value(), std::memory_order_relaxed);
  header.number.store(id.number, std::memory_order_relaxed);
  header.size.store(size, std::memory_order_relaxed);
  return {number, word.generation};
}

void Ledger::seal(const Place& place) const {
  slot(place.slot).word.store(packed({place.generation, SlotState::kSealed}));
}

void Ledger::abandon(const Place& place) const {
  std::uint64_t writing = packed({place.generation, SlotState::kWriting});
  slot(place.slot).word.compare_exchange_strong(writing, packed({place.generation + 1, SlotState::kFree}));
}

bool Ledger::retire(const Place& place) const {
  std::uint64_t sealed = packed({place.generation, SlotState::kSealed});
  return slot(place.slot).word.compare_exchange_strong(sealed, packed({place.generation + 1, SlotState::kFree}));
}

bool Ledger::take_over(const Location& location, CallerId heir) const {
  SlotHeader& header = slot(location.place.slot);
  std::uint64_t maker = location.id.maker.value();
  return header.holder.compare_exchange_strong(maker, heir.value());
}

bool Ledger::disown(const Place& place, CallerId holder) const {
  std::uint64_t held_by = holder.value();
  return slot(place.slot).holder.compare_exchange_strong(held_by, 0);
}

std::optional<Ledger::Pinned> Ledger::pin(std::uint32_t number, std::uint32_t pin, const Location& location) const {
  if (location.place.slot >= slots_) return std::nullopt;
  PinTable& pins = table(number);
  PHAROS_CHECK(pin < kPinsMax, pin);
  if (pins.used.load(std::memory_order_relaxed) <= pin) pins.used.store(pin + 1);
  pins.pins[pin].store(pin_of(location.place));
  const SlotHeader& header = slot(location.place.slot);
  if (header.word.load() != packed({location.place.generation, SlotState::kSealed}) ||
      header.maker.load(std::memory_order_relaxed) != location.id.maker.value() ||
      header.number.load(std::memory_order_relaxed) != location.id.number) {
    unpin(number, pin);
    return std::nullopt;
  }
  return Pinned{header.offset.load(std::memory_order_relaxed), header.size.load(std::memory_order_relaxed)};
}

void Ledger::unpin(std::uint32_t number, std::uint32_t pin) const {
  table(number).pins[pin].store(0);
}

void Ledger::open_table(std::uint32_t number) const {
  if (head_->tables_used.load() <= number) head_->tables_used.store(number + 1);
}

void Ledger::clear_table(std::uint32_t number) const {
  PinTable& pins = table(number);
  for (auto& pin : pins.pins) {
    if (pin.load(std::memory_order_relaxed) != 0) pin.store(0);
  }
  pins.used.store(0);
}

Ledger::Stretch Ledger::stretch_of_slots(std::uint32_t first, std::uint32_t count) const {
  return {kPage + first * sizeof(SlotHeader), count * sizeof(SlotHeader)};
}

Ledger::Stretch Ledger::stretch_of_table(std::uint32_t number) const {
  return {bytes_for(slots_, number), sizeof(PinTable)};
}

}  // namespace pharos::object_store
