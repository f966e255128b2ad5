#include <algorithm>
#include <string>

#include <pharos/base/check.hpp>
#include <pharos/object_store/lender.hpp>

namespace pharos::object_store {

Lender::Lender(const Ledger& ledger, ByteCount capacity)
    : ledger_{ledger},
      memory_{capacity.bytes()},
      slots_{ledger.slots()},
      processes_(ledger.tables()),
      touched_(capacity.bytes() / kSegmentBytes) {
  PHAROS_CHECK(capacity.bytes() % kSegmentBytes == 0, capacity.bytes());
}

Result<std::uint32_t> Lender::open(CallerId process) {
  PHAROS_CHECK(process);
  if (std::find(processes_.begin(), processes_.end(), process) != processes_.end()) {
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

Error Lender::full(std::uint64_t bytes) const {
  return {ErrorCode::kExhausted,
          "the object store is full: of " + to_string(ByteCount{memory_.length()}) + ", " +
              to_string(ByteCount{memory_.free()}) + " are free, " + to_string(ByteCount{memory_.longest_free()}) +
              " in one piece; " + to_string(ByteCount{bytes}) + " were asked for",
          "Let go of Refs and of values that are views, or give the cluster's Runtime a larger object_store."};
}

Result<Slab> Lender::lease(std::uint32_t table, std::uint64_t slot_bytes) {
  if (!process_of(table) || !is_slot_size(slot_bytes)) {
    return Error{ErrorCode::kInvalidArgument, "a lease was asked for that no process of this version asks for"};
  }
  Slab slab{.offset = 0, .slot_bytes = slot_bytes, .first_slot = 0, .slots = slots_of_slab(slot_bytes)};
  if (slot_bytes > memory_.length()) return full(slot_bytes);
  auto offset = memory_.take(slab.bytes());
  if (!offset && slab.slots != 1) {
    slab.slots = 1;
    offset = memory_.take(slab.bytes());
  }
  if (!offset) return full(slab.bytes());
  const auto first = slots_.take(slab.slots);
  if (!first) {
    memory_.give_back(*offset, slab.bytes());
    return full(slab.bytes());
  }
  slab.offset = *offset;
  slab.first_slot = static_cast<std::uint32_t>(*first);
  for (std::uint32_t i = 0; i < slab.slots; ++i) {
    ledger_.slot(slab.first_slot + i).offset.store(slab.offset + i * slot_bytes);
  }
  for (std::uint64_t s = slab.offset / kSegmentBytes; s * kSegmentBytes < slab.offset + slab.bytes(); ++s) {
    touched_[s] = true;
  }
  slabs_.emplace(slab.first_slot, Lent{slab, table});
  return slab;
}

void Lender::give_back(std::uint32_t table, std::uint32_t first_slot) {
  const auto found = slabs_.find(first_slot);
  if (found == slabs_.end() || found->second.table != table) return;
  found->second.table = kNobody;
  ++orphans_;
  reclaim();
}

std::vector<Lender::Unclaimed> Lender::process_ended(std::uint32_t table) {
  std::vector<Unclaimed> unclaimed;
  const CallerId process = process_of(table);
  if (!process) return unclaimed;
  for (auto& [first, lent] : slabs_) {
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      const SlotHeader& header = ledger_.slot(slot);
      const SlotWord word = ledger_.word_of(slot);
      const Place place{slot, word.generation};
      if (word.state == SlotState::kWriting && lent.table == table) ledger_.abandon(place);
      if (word.state != SlotState::kSealed) continue;
      const CallerId holder{header.holder.load()};
      const CallerId heir{header.heir.load()};
      if (holder == process && heir && heir != process) {
        unclaimed.push_back({place, process});
      } else if (holder == process || heir == process) {
        if (ledger_.disown(place, holder)) ledger_.retire(place);
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

void Lender::end_unclaimed(const std::vector<Unclaimed>& results) {
  for (const auto& [place, maker] : results) {
    const SlotWord word = ledger_.word_of(place.slot);
    if (word.state != SlotState::kSealed || word.generation != place.generation) continue;
    if (ledger_.disown(place, maker)) ledger_.retire(place);
  }
  reclaim();
}

bool Lender::in_use(const Slab& slab) const {
  for (std::uint32_t slot = slab.first_slot; slot < slab.first_slot + slab.slots; ++slot) {
    if (ledger_.word_of(slot).state != SlotState::kFree || ledger_.pinned(slot)) return true;
  }
  return false;
}

bool Lender::reclaim() {
  if (orphans_ == 0) return false;
  bool any = false;
  for (auto each = slabs_.begin(); each != slabs_.end();) {
    const Lent& lent = each->second;
    if (lent.table != kNobody || in_use(lent.slab)) {
      ++each;
      continue;
    }
    memory_.give_back(lent.slab.offset, lent.slab.bytes());
    slots_.give_back(lent.slab.first_slot, lent.slab.slots);
    --orphans_;
    any = true;
    each = slabs_.erase(each);
  }
  return any;
}

std::optional<std::uint64_t> Lender::take_idle_segment() {
  for (std::size_t s = 0; s < touched_.size(); ++s) {
    if (!touched_[s] || !memory_.is_free(s * kSegmentBytes, kSegmentBytes)) continue;
    touched_[s] = false;
    return s * kSegmentBytes;
  }
  return std::nullopt;
}

CallerId Lender::process_of(std::uint32_t table) const {
  return table < processes_.size() ? processes_[table] : CallerId{};
}

Lender::Census Lender::census() const {
  Census census;
  census.processes =
      static_cast<std::size_t>(std::count_if(processes_.begin(), processes_.end(), [](CallerId p) { return bool{p}; }));
  for (const auto& [first, lent] : slabs_) {
    ++census.slabs;
    census.leased_bytes += lent.slab.bytes();
    for (std::uint32_t slot = first; slot < first + lent.slab.slots; ++slot) {
      if (ledger_.word_of(slot).state != SlotState::kFree) ++census.objects;
    }
  }
  return census;
}

}  // namespace pharos::object_store
