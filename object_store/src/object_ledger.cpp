#include <algorithm>
#include <array>
#include <cstring>

#include <pharos/base/check.hpp>
#include <pharos/object_store/object_ledger.hpp>

namespace pharos::object_store {
namespace {

constexpr std::uint64_t kMagic = 0x7265676465'4c6851;
constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// There is a counter of releases for each slab unit that the slots could fill if they were of the smallest size. Units
// beyond these share counters.
std::uint32_t units_of(std::uint32_t slots) {
  return slots / static_cast<std::uint32_t>(kSlabUnit / kSlotBytesMin) + 1;
}

// The layout of a slot's word: generation 32 bits, visits 24, let go 1, unused 4, state 3.
constexpr std::uint64_t kLetGo = 1 << 7;
constexpr std::uint64_t kStates = 7;
constexpr std::uint32_t kVisitsEnd = 1 << 24;

std::uint64_t packed(SlotWord word) {
  return std::uint64_t{word.generation} << 32 | std::uint64_t{word.visits % kVisitsEnd} << 8 |
         (word.let_go ? kLetGo : 0) | static_cast<std::uint64_t>(word.state);
}
SlotWord unpacked(std::uint64_t word) {
  return {.generation = static_cast<std::uint32_t>(word >> 32),
          .state = static_cast<SlotState>(word & kStates),
          .let_go = (word & kLetGo) != 0,
          .visits = static_cast<std::uint32_t>(word >> 8) % kVisitsEnd};
}

}  // namespace

std::span<std::atomic<std::uint32_t>> ReleaseCounters::from(std::uint64_t offset) const {
  const auto number = static_cast<std::uint32_t>(offset / kSlabUnit % count_);
  return {first_ + number, count_ - number};
}

std::uint64_t ReleaseCounters::of(std::uint64_t offset, std::uint64_t bytes) const {
  std::uint64_t sum = 0;
  for (std::uint64_t unit = offset / kSlabUnit; unit * kSlabUnit < offset + bytes; ++unit) {
    sum += from(unit * kSlabUnit)[0].load();
  }
  return sum;
}

// After the release: who has noted the number and the pages before it notes another number later.
void ReleaseCounters::note(std::uint64_t offset, std::uint64_t bytes) const {
  for (std::uint64_t unit = offset / kSlabUnit; unit * kSlabUnit < offset + bytes; ++unit) {
    from(unit * kSlabUnit)[0].fetch_add(1);
  }
}

struct alignas(64) ObjectLedger::Head {
  std::uint64_t magic;
  std::uint32_t slots;
  std::uint32_t tables;
  std::atomic<std::uint32_t> tables_used;  // tables from this number on have never been opened
  std::atomic<std::uint32_t> now;
};

std::size_t ObjectLedger::bytes_for(std::uint32_t slots, std::uint32_t tables) {
  return kPage + whole_pages(slots * sizeof(SlotHeader)) + whole_pages(slots * sizeof(SlotLabel)) +
         whole_pages(units_of(slots) * sizeof(std::uint32_t)) + tables * sizeof(PinTable);
}

ObjectLedger::ObjectLedger(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables)
    : head_{reinterpret_cast<Head*>(memory.data())},
      first_slot_{reinterpret_cast<SlotHeader*>(memory.data() + kPage)},
      first_label_{reinterpret_cast<SlotLabel*>(memory.data() + kPage + whole_pages(slots * sizeof(SlotHeader)))},
      releases_{reinterpret_cast<std::atomic<std::uint32_t>*>(reinterpret_cast<std::byte*>(first_label_) +
                                                              whole_pages(slots * sizeof(SlotLabel))),
                units_of(slots)},
      first_table_{reinterpret_cast<PinTable*>(memory.data() + bytes_for(slots, 0))},
      slots_{slots},
      tables_{tables} {}

ObjectLedger ObjectLedger::format(std::span<std::byte> memory, std::uint32_t slots, std::uint32_t tables) {
  PHAROS_CHECK(memory.size() >= bytes_for(slots, tables), memory.size(), slots, tables);
  const ObjectLedger ledger{memory, slots, tables};
  ledger.head_->magic = kMagic;
  ledger.head_->slots = slots;
  ledger.head_->tables = tables;
  return ledger;
}

Result<ObjectLedger> ObjectLedger::attach(std::span<std::byte> memory) {
  const auto* const head = reinterpret_cast<const Head*>(memory.data());
  if (memory.size() < kPage || head->magic != kMagic) {
    return Error{ErrorCode::kCorrupt, "the shared memory does not contain a ledger of the object store"};
  }
  const std::uint32_t slots = head->slots;
  const std::uint32_t tables = head->tables;
  if (memory.size() < bytes_for(slots, tables)) {
    return Error{ErrorCode::kCorrupt, "the object store's ledger is smaller than it says"};
  }
  return ObjectLedger{memory, slots, tables};
}

SlotHeader& ObjectLedger::slot(std::uint32_t number) const {
  PHAROS_CHECK(number < slots_, number, slots_);
  return first_slot_[number];
}

PinTable& ObjectLedger::table(std::uint32_t number) const {
  PHAROS_CHECK(number < tables_, number, tables_);
  return first_table_[number];
}

SlotWord ObjectLedger::word_of(std::uint32_t number) const {
  return unpacked(slot(number).word.load());
}

bool ObjectLedger::has(const Location& location) const {
  const Place& place = location.place;
  if (place.slot >= slots_) return false;
  const SlotWord word = word_of(place.slot);
  const SlotHeader& header = slot(place.slot);
  return word.generation == place.generation && word.has_object() &&
         header.maker.load(std::memory_order_relaxed) == location.id.maker.value() &&
         header.number.load(std::memory_order_relaxed) == location.id.number;
}

std::uint32_t ObjectLedger::tables_used() const {
  return std::min(head_->tables_used.load(), tables_);
}

bool ObjectLedger::pinned(std::uint32_t slot) const {
  for (std::uint32_t t = 0; t < tables_used(); ++t) {
    const PinTable& pins = table(t);
    const std::uint32_t used = std::min(pins.used.load(), kPinsMax);
    for (std::uint32_t i = 0; i < used; ++i) {
      const std::uint64_t word = pins.pins[i].load();
      if (word != 0 && detail::slot_of_pin(word) == slot) return true;
    }
  }
  return false;
}

bool ObjectLedger::change(const Place& place, SlotState from, SlotState to) const {
  auto& atomic = slot(place.slot).word;
  std::uint64_t seen = atomic.load();
  for (;;) {
    SlotWord word = unpacked(seen);
    if (word.generation != place.generation || word.state != from) return false;
    word.state = to;
    if (atomic.compare_exchange_weak(seen, packed(word))) return true;
  }
}

bool ObjectLedger::end_as(std::uint32_t number, SlotState end) const {
  auto& atomic = slot(number).word;
  std::uint64_t seen = atomic.load();
  const SlotWord word = unpacked(seen);
  if (!word.let_go || pinned(number)) return false;
  return atomic.compare_exchange_strong(seen, packed({.generation = word.generation + 1, .state = end}));
}

bool ObjectLedger::end(std::uint32_t number) const {
  const SlotWord word = word_of(number);
  if (word.state == SlotState::kFree) return true;
  return word.has_object() && word.state != SlotState::kOut && end_as(number, SlotState::kFree);
}

bool ObjectLedger::end_outside(const Place& place) const {
  const SlotWord word = word_of(place.slot);
  return word.generation == place.generation && word.state == SlotState::kOut && end_as(place.slot, SlotState::kGone);
}

std::uint64_t ObjectLedger::provided(std::uint32_t number) const {
  return slot(number).pages.load(std::memory_order_relaxed) * std::uint64_t{kPage};
}

void ObjectLedger::note_provided(std::uint32_t number, std::uint64_t bytes) const {
  slot(number).pages.store(static_cast<std::uint32_t>(whole_pages(bytes) / kPage), std::memory_order_relaxed);
}

void ObjectLedger::lend(std::uint32_t number, std::uint64_t offset, std::uint64_t provided) const {
  SlotHeader& header = slot(number);
  header.offset.store(offset);
  note_provided(number, provided);
  header.word.store(packed({.generation = word_of(number).generation, .state = SlotState::kFree}));
}

Place ObjectLedger::begin(std::uint32_t number, const ObjectId& id, std::uint64_t size, CallerId heir,
                          std::string_view label) const {
  SlotHeader& header = slot(number);
  const SlotWord word = unpacked(header.word.load());
  PHAROS_CHECK(word.state == SlotState::kFree, number, static_cast<int>(word.state));
  // The state is set first: if this process dies from here on, the node finds the slot half-written.
  header.word.store(packed({.generation = word.generation, .state = SlotState::kWriting}));
  header.holder.store(id.maker.value(), std::memory_order_relaxed);
  header.heir.store(heir.value(), std::memory_order_relaxed);
  header.maker.store(id.maker.value(), std::memory_order_relaxed);
  header.number.store(id.number, std::memory_order_relaxed);
  header.size.store(size, std::memory_order_relaxed);
  header.used.store(head_->now.load(std::memory_order_relaxed), std::memory_order_relaxed);
  std::array<std::uint64_t, 8> words{};
  if (!label.empty()) std::memcpy(words.data(), label.data(), std::min(label.size(), sizeof words));
  for (std::size_t i = 0; i < words.size(); ++i) {
    first_label_[number].words[i].store(words[i], std::memory_order_relaxed);
  }
  return {number, word.generation};
}

std::string ObjectLedger::label_of(std::uint32_t number) const {
  PHAROS_CHECK(number < slots_, number, slots_);
  std::array<std::uint64_t, 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = first_label_[number].words[i].load(std::memory_order_relaxed);
  }
  std::string label(sizeof words, '\0');
  std::memcpy(label.data(), words.data(), sizeof words);
  label.resize(std::min(label.find('\0'), label.size()));
  return label;
}

void ObjectLedger::seal(const Place& place) const {
  slot(place.slot).word.store(packed({.generation = place.generation, .state = SlotState::kSealed}));
}

void ObjectLedger::abandon(const Place& place) const {
  std::uint64_t writing = packed({.generation = place.generation, .state = SlotState::kWriting});
  const std::uint64_t free = packed({.generation = place.generation + 1, .state = SlotState::kFree});
  slot(place.slot).word.compare_exchange_strong(writing, free);
}

void ObjectLedger::let_go(const Place& place) const {
  auto& atomic = slot(place.slot).word;
  std::uint64_t seen = atomic.load();
  for (;;) {
    SlotWord word = unpacked(seen);
    if (word.generation != place.generation || !word.has_object() || word.let_go) return;
    word.let_go = true;
    if (atomic.compare_exchange_weak(seen, packed(word))) return;
  }
}

bool ObjectLedger::take_over(const Location& location, CallerId heir) const {
  SlotHeader& header = slot(location.place.slot);
  std::uint64_t maker = location.id.maker.value();
  return header.holder.compare_exchange_strong(maker, heir.value());
}

bool ObjectLedger::disown(const Place& place, CallerId holder) const {
  std::uint64_t held_by = holder.value();
  return slot(place.slot).holder.compare_exchange_strong(held_by, 0);
}

std::optional<ObjectLedger::Pinned> ObjectLedger::pin(std::uint32_t number, std::uint32_t pin, PinKind kind,
                                                      const Location& location) const {
  const Place& place = location.place;
  if (place.slot >= slots_) return std::nullopt;
  PinTable& pins = table(number);
  PHAROS_CHECK(pin < kPinsMax, pin);
  if (pins.used.load(std::memory_order_relaxed) <= pin) pins.used.store(pin + 1);
  pins.pins[pin].store(detail::pin_word(place, kind));
  SlotHeader& header = slot(place.slot);
  std::uint64_t seen = header.word.load();
  for (;;) {
    SlotWord word = unpacked(seen);
    if (word.generation != place.generation || !word.has_object()) break;
    const bool comes_back = kind == PinKind::kRead && word.state == SlotState::kLeaving;
    if (comes_back) word.state = SlotState::kSealed;
    if (word.let_go) ++word.visits;
    if ((comes_back || word.let_go) && !header.word.compare_exchange_weak(seen, packed(word))) continue;
    if (header.maker.load(std::memory_order_relaxed) != location.id.maker.value() ||
        header.number.load(std::memory_order_relaxed) != location.id.number) {
      break;
    }
    if (kind == PinKind::kRead) {
      header.used.store(head_->now.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    return Pinned{.offset = header.offset.load(std::memory_order_relaxed),
                  .size = header.size.load(std::memory_order_relaxed),
                  .in_memory = word.state != SlotState::kOut};
  }
  unpin(number, pin);
  return std::nullopt;
}

void ObjectLedger::unpin(std::uint32_t number, std::uint32_t pin) const {
  table(number).pins[pin].store(0);
}

void ObjectLedger::open_table(std::uint32_t number) const {
  if (head_->tables_used.load() <= number) head_->tables_used.store(number + 1);
}

void ObjectLedger::clear_table(std::uint32_t number) const {
  PinTable& pins = table(number);
  const std::uint32_t used = std::min(pins.used.load(), kPinsMax);
  for (std::uint32_t i = 0; i < used; ++i) pins.pins[i].store(0);
  pins.used.store(0);
}

void ObjectLedger::advance() const {
  head_->now.fetch_add(1, std::memory_order_relaxed);
}

std::array<ObjectLedger::Stretch, 3> ObjectLedger::stretches_of(const Slab& slab) const {
  const std::size_t labels = kPage + whole_pages(slots_ * sizeof(SlotHeader));
  const auto counters = std::as_bytes(releases_.from(slab.offset));
  const std::uint64_t units = (slab.bytes() + kSlabUnit - 1) / kSlabUnit;
  return {{{kPage + slab.first_slot * sizeof(SlotHeader), slab.slots * sizeof(SlotHeader)},
           {labels + slab.first_slot * sizeof(SlotLabel), slab.slots * sizeof(SlotLabel)},
           {static_cast<std::size_t>(counters.data() - reinterpret_cast<const std::byte*>(head_)),
            std::min(units * sizeof(std::uint32_t), counters.size())}}};
}

ObjectLedger::Stretch ObjectLedger::stretch_of_pins(std::uint32_t number, std::uint32_t pins) const {
  return {bytes_for(slots_, number), offsetof(PinTable, pins) + pins * sizeof(std::uint64_t)};
}

}  // namespace pharos::object_store
