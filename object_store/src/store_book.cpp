#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <pharos/base/check.hpp>
#include <pharos/object_store/store_book.hpp>

namespace pharos::object_store {
namespace {

std::uint64_t units(std::uint64_t bytes) {
  return whole_slab_units(ByteCount{bytes}).bytes() / kSlabUnit;
}

}  // namespace

StoreBook::StoreBook(const ObjectLedger& ledger, ByteCount capacity, ByteCount addresses)
    : ledger_{ledger},
      capacity_{capacity.bytes()},
      addresses_{addresses.bytes() / kSlabUnit},
      slots_{ledger.slots()},
      processes_(ledger.tables()) {
  PHAROS_CHECK(capacity <= addresses, capacity, addresses);
}

// ---- Processes

Result<std::uint32_t> StoreBook::open(CallerId process) {
  PHAROS_CHECK(process);
  if (has_process(process)) {
    return Error{ErrorCode::kAlreadyExists, "process " + to_string(process) + " uses the object store already"};
  }
  const auto free = std::find(processes_.begin(), processes_.end(), CallerId{});
  if (free == processes_.end()) {
    return Error{ErrorCode::kExhausted, std::to_string(processes_.size()) +
                                            " processes use the object store of this node, which is all it "
                                            "has tables for"};
  }
  *free = process;
  const auto table = static_cast<std::uint32_t>(free - processes_.begin());
  ledger_.open_table(table);
  return table;
}

std::vector<StoreBook::Unclaimed> StoreBook::process_ended(std::uint32_t table) {
  std::vector<Unclaimed> unclaimed;
  const CallerId process = process_of(table);
  if (!process) return unclaimed;
  for (auto& [first, lent] : slabs_) {
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      const SlotHeader& header = ledger_.slot(slot);
      const SlotWord word = ledger_.word_of(slot);
      const Place place{slot, word.generation};
      if (word.state == SlotState::kWriting && lent.table == table) ledger_.abandon(place);
      if (!word.has_object()) continue;
      const CallerId holder{header.holder.load()};
      const CallerId heir{header.heir.load()};
      if (holder == process && heir && heir != process) {
        unclaimed.push_back({place, process});
      } else if (holder == process || heir == process) {
        if (ledger_.disown(place, holder)) ledger_.let_go(place);
      }
    }
    if (lent.table != table) continue;
    lent.table = kNobody;
    ++orphans_;
  }
  ledger_.clear_table(table);
  processes_[table] = {};
  reclaim();
  return unclaimed;
}

void StoreBook::end_unclaimed(const std::vector<Unclaimed>& results) {
  for (const auto& [place, maker] : results) {
    const SlotWord word = ledger_.word_of(place.slot);
    if (!word.has_object() || word.generation != place.generation) continue;
    if (ledger_.disown(place, maker)) ledger_.let_go(place);
  }
  reclaim();
}

bool StoreBook::has_unclaimed() const {
  return std::ranges::any_of(slabs_, [this](const auto& entry) {
    const Slab& slab = entry.second.slab;
    for (std::uint32_t slot = entry.first; slot < entry.first + slab.slots; ++slot) {
      const SlotHeader& header = ledger_.slot(slot);
      const SlotWord word = ledger_.word_of(slot);
      const std::uint64_t heir = header.heir.load();
      if (word.has_object() && !word.let_go && heir != 0 && heir != header.holder.load()) return true;
    }
    return false;
  });
}

bool StoreBook::has_process(CallerId process) const {
  return std::find(processes_.begin(), processes_.end(), process) != processes_.end();
}

CallerId StoreBook::process_of(std::uint32_t table) const {
  return table < processes_.size() ? processes_[table] : CallerId{};
}

// ---- Slabs

Error StoreBook::full(std::uint64_t bytes) const {
  const std::uint64_t lent = lent_memory();
  return {ErrorCode::kExhausted,
          "the object store is full: of " + to_string(ByteCount{capacity_}) + ", " +
              to_string(ByteCount{capacity_ - std::min(capacity_, lent)}) + " are free; " +
              to_string(ByteCount{bytes}) + " were asked for",
          "Let go of Refs and of values that are views, or give the cluster's Runtime a larger object_store."};
}

// Takes a free slab of the same size from idle_. A slab may have lost the memory of some slots, so the rest is counted
// anew and must have room.
std::optional<StoreBook::Idle> StoreBook::take_warm(const Slab& slab) {
  const std::uint64_t bytes = slab.bytes();
  const auto warm = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) { return idle.bytes == bytes; });
  if (warm == idle_.rend() || !has_room(bytes - warm->memory)) return std::nullopt;
  Idle taken = *warm;
  idle_.erase(std::next(warm).base());
  idle_bytes_ -= taken.memory;
  memory_ += bytes - taken.memory;
  if (taken.slot_bytes != slab.slot_bytes) taken.provided = 0;
  return taken;
}

// Takes a free slab of the same size, or else new addresses.
std::optional<StoreBook::Idle> StoreBook::take_memory(const Slab& slab) {
  const std::uint64_t bytes = slab.bytes();
  if (auto warm = take_warm(slab)) return warm;
  if (!has_room(bytes)) return std::nullopt;
  const auto unit = addresses_.take(units(bytes));
  if (!unit) return std::nullopt;
  memory_ += bytes;
  return Idle{
      .offset = *unit * kSlabUnit, .bytes = bytes, .memory = bytes, .slot_bytes = 0, .provided = 0, .waiting = {}};
}

// To be called for a slab without objects. It is kept with the memory that it has; if it has none, its addresses become
// free.
void StoreBook::note_idle(const Lent& lent) {
  const Slab& slab = lent.slab;
  if (lent.away == slab.slots) return addresses_.give_back(slab.offset / kSlabUnit, units(slab.bytes()));
  Idle idle{.offset = slab.offset,
            .bytes = slab.bytes(),
            .memory = slab.slot_bytes * (slab.slots - lent.away),
            .slot_bytes = slab.slot_bytes,
            .provided = slab.slot_bytes,
            .waiting = {}};
  for (std::uint32_t i = 0; i < slab.slots; ++i) {
    idle.provided = std::min(idle.provided, ledger_.provided(slab.first_slot + i));
  }
  idle_.push_back(idle);
  idle_bytes_ += idle.memory;
}

Result<Slab> StoreBook::lease(std::uint32_t table, std::uint64_t slot_bytes) {
  if (!process_of(table) || !is_slot_size(slot_bytes)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a process asked for an invalid lease: perhaps it runs another version of Pharos"};
  }
  Slab slab{.offset = 0, .slot_bytes = slot_bytes, .first_slot = 0, .slots = slots_of_slab(slot_bytes)};
  auto memory = take_memory(slab);
  if (!memory && slab.slots != 1) {
    slab.slots = 1;
    memory = take_memory(slab);
  }
  if (!memory) return full(slab.bytes());
  const auto first = slots_.take(slab.slots);
  if (!first) {
    memory->memory = memory->bytes;
    idle_.push_back(*memory);
    idle_bytes_ += memory->memory;
    return full(slab.bytes());
  }
  slab.offset = memory->offset;
  slab.first_slot = static_cast<std::uint32_t>(*first);
  for (std::uint32_t i = 0; i < slab.slots; ++i)
    ledger_.lend(slab.first_slot + i, slab.offset + i * slot_bytes, memory->provided);
  ledger_.advance();
  slabs_.emplace(slab.first_slot, Lent{slab, table});
  return slab;
}

void StoreBook::give_back(std::uint32_t table, std::uint32_t first_slot) {
  const auto found = slabs_.find(first_slot);
  if (found == slabs_.end() || found->second.table != table) return;
  found->second.table = kNobody;
  ++orphans_;
  reclaim();
}

// Ends all objects of the slab that can be ended. Without a leaseholder only the node does that.
bool StoreBook::ended(const Slab& slab) const {
  for (std::uint32_t slot = slab.first_slot; slot < slab.first_slot + slab.slots; ++slot) {
    if (ledger_.word_of(slot).state != SlotState::kGone && !ledger_.end(slot)) return false;
  }
  return true;
}

bool StoreBook::reclaim() {
  if (orphans_ == 0) return false;
  bool any = false;
  for (auto each = slabs_.begin(); each != slabs_.end();) {
    const Lent& lent = each->second;
    if (lent.table != kNobody || !ended(lent.slab)) {
      ++each;
      continue;
    }
    if (warm_.erase(lent.slab.first_slot) != 0) idle_bytes_ -= lent.slab.bytes();
    note_idle(lent);
    slots_.give_back(lent.slab.first_slot, lent.slab.slots);
    --orphans_;
    any = true;
    each = slabs_.erase(each);
  }
  return any;
}

StoreBook::Lent& StoreBook::lent_with(std::uint32_t slot) {
  const auto after = slabs_.upper_bound(slot);
  PHAROS_CHECK(after != slabs_.begin(), slot);
  Lent& lent = std::prev(after)->second;
  PHAROS_CHECK(slot < lent.slab.first_slot + lent.slab.slots, slot, lent.slab.first_slot);
  return lent;
}

// ---- Memory

std::vector<StoreBook::Idle> StoreBook::take_idle(std::uint64_t bytes) {
  std::vector<Idle> taken;
  std::uint64_t sum = 0;
  for (; sum < bytes && !idle_.empty(); idle_.pop_front()) {
    taken.push_back(idle_.front());
    sum += taken.back().memory;
  }
  for (; sum < bytes && !warm_.empty(); warm_.erase(warm_.begin())) {
    const Slab& slab = slabs_.at(*warm_.begin()).slab;
    const Place place = outside_.extract(slab.first_slot).mapped();
    taken.push_back({slab.offset, slab.bytes(), slab.bytes(), slab.slot_bytes, 0, place});
    sum += slab.bytes();
  }
  for (const Idle& idle : taken) {
    idle_bytes_ -= idle.memory;
    releasing_bytes_ += idle.memory;
  }
  return taken;
}

void StoreBook::released(const Idle& idle) {
  releasing_bytes_ -= idle.memory;
  memory_ -= idle.memory;
  if (idle.waiting) {
    const Place& place = *idle.waiting;
    ledger_.note_provided(place.slot, 0);
    slabs_.at(place.slot).away = 1;
    outside_.emplace(place.slot, place);
    return;
  }
  addresses_.give_back(idle.offset / kSlabUnit, units(idle.bytes));
}

// ---- Objects that are out on disk

StoreBook::Body StoreBook::body_of(const Place& place, std::uint64_t slot_bytes) const {
  const SlotHeader& header = ledger_.slot(place.slot);
  const ObjectId id{CallerId{header.maker.load()}, header.number.load()};
  return {{id, place, CallerId{header.holder.load()}}, header.offset.load(), header.size.load(), slot_bytes};
}

std::vector<StoreBook::Body> StoreBook::choose_leaving(std::uint64_t bytes, const std::set<Place>& busy) {
  struct Candidate {
    std::uint64_t used;
    std::uint32_t slot;
    std::uint64_t slot_bytes;
  };
  std::vector<Candidate> candidates;
  for (const auto& [first, lent] : slabs_) {
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      const SlotWord word = ledger_.word_of(slot);
      if (word.state != SlotState::kSealed || busy.contains({slot, word.generation})) continue;
      candidates.push_back({ledger_.slot(slot).used.load(std::memory_order_relaxed), slot, lent.slab.slot_bytes});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.used != b.used ? a.used < b.used : a.slot < b.slot;
  });
  std::vector<Body> leaving;
  std::uint64_t sum = 0;
  for (auto next = candidates.begin(); sum < bytes && next != candidates.end();) {
    // Objects are marked in batches, so that the tables are looked through once for each batch.
    std::vector<Candidate> marked;
    std::uint64_t marked_bytes = 0;
    for (; sum + marked_bytes < bytes && next != candidates.end(); ++next) {
      const SlotWord word = ledger_.word_of(next->slot);
      if (!ledger_.leave({next->slot, word.generation})) continue;
      marked.push_back(*next);
      marked_bytes += next->slot_bytes;
    }
    std::unordered_set<std::uint32_t> read;
    ledger_.for_each_pin([&read](std::uint32_t, std::uint32_t slot, PinKind kind) {
      if (kind == PinKind::kRead) read.insert(slot);
    });
    for (const Candidate& each : marked) {
      const Place place{each.slot, ledger_.word_of(each.slot).generation};
      if (read.contains(each.slot)) {
        ledger_.stay(place);
        continue;
      }
      sum += each.slot_bytes;
      leaving.push_back(body_of(place, each.slot_bytes));
    }
  }
  return leaving;
}

void StoreBook::left(const Place& place) {
  Lent& lent = lent_with(place.slot);
  ++lent.away;
  memory_ -= lent.slab.slot_bytes;
  outside_.insert_or_assign(place.slot, place);
}

Result<StoreBook::Body> StoreBook::begin_return(const Place& place) {
  const auto found = outside_.find(place.slot);
  if (found == outside_.end() || found->second != place) {
    return Error{ErrorCode::kNotFound, "no object is out there"};
  }
  Lent& lent = lent_with(place.slot);
  const std::uint64_t bytes = lent.slab.slot_bytes;
  if (warm_.erase(place.slot) != 0) {
    idle_bytes_ -= bytes;
  } else if (!has_room(bytes)) {
    return full(bytes);
  } else {
    memory_ += bytes;
    --lent.away;
  }
  outside_.erase(found);
  ledger_.advance();
  return body_of(place, bytes);
}

void StoreBook::return_failed(const Place& place) {
  left(place);
}

// The slot gets a slab of its own, which no process leases.
Result<Place> StoreBook::lend_outside(const ObjectId& id, std::uint64_t size, std::string_view label) {
  Slab slab{.offset = 0, .slot_bytes = slot_bytes_for(size), .first_slot = 0, .slots = 1};
  const auto first = slots_.take(1);
  if (!first) return full(slab.bytes());
  slab.first_slot = static_cast<std::uint32_t>(*first);
  const auto warm = take_warm(slab);
  if (warm) {
    slab.offset = warm->offset;
    idle_bytes_ += slab.bytes();
    warm_.insert(slab.first_slot);
  } else if (const auto unit = addresses_.take(units(slab.bytes()))) {
    slab.offset = *unit * kSlabUnit;
  } else {
    slots_.give_back(*first, 1);
    return full(slab.bytes());
  }
  ledger_.lend(slab.first_slot, slab.offset, warm ? warm->provided : 0);
  const Place place = ledger_.begin(slab.first_slot, id, size, {}, label);
  ledger_.seal(place);
  PHAROS_CHECK(ledger_.leave(place) && ledger_.note_out(place), place.slot);
  slabs_.emplace(slab.first_slot, Lent{slab, kNobody, warm ? 0U : 1U});
  ++orphans_;
  outside_.emplace(place.slot, place);
  return place;
}

std::vector<Place> StoreBook::end_outside() {
  std::vector<Place> ended;
  for (auto each = outside_.begin(); each != outside_.end();) {
    if (!ledger_.end_outside(each->second)) {
      ++each;
      continue;
    }
    ended.push_back(each->second);
    each = outside_.erase(each);
  }
  return ended;
}

std::vector<StoreBook::Seen> StoreBook::look() const {
  std::vector<Seen> all;
  std::unordered_map<std::uint32_t, std::size_t> by_slot;
  for (const auto& [first, lent] : slabs_) {
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      const SlotWord word = ledger_.word_of(slot);
      if (word.state != SlotState::kWriting && !word.has_object()) continue;
      const Body body = body_of({slot, word.generation}, lent.slab.slot_bytes);
      by_slot.emplace(slot, all.size());
      all.push_back({.id = body.location.id,
                     .size = body.size,
                     .label = ledger_.label_of(slot),
                     .state = word.state,
                     .holder = word.let_go ? CallerId{} : body.location.owner});
    }
  }
  ledger_.for_each_pin([&](std::uint32_t table, std::uint32_t slot, PinKind kind) {
    const auto found = by_slot.find(slot);
    if (found == by_slot.end()) return;
    auto& its = kind == PinKind::kRead ? all[found->second].read_by : all[found->second].kept_by;
    its.push_back(process_of(table));
  });
  return all;
}

bool StoreBook::is_outside(const Place& place) const {
  const auto found = outside_.find(place.slot);
  return found != outside_.end() && found->second == place;
}

StoreBook::Census StoreBook::census() const {
  Census census;
  census.processes =
      static_cast<std::size_t>(std::count_if(processes_.begin(), processes_.end(), [](CallerId p) { return bool{p}; }));
  for (const auto& [first, lent] : slabs_) {
    ++census.slabs;
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      const SlotWord word = ledger_.word_of(slot);
      // An object that was let go ends at the next look, so it is not counted.
      if (word.state == SlotState::kWriting || (word.has_object() && !word.let_go)) ++census.objects;
      if (word.state == SlotState::kOut) ++census.outside;
    }
  }
  return census;
}

}  // namespace pharos::object_store
