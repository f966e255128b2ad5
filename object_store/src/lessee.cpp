#include <algorithm>
#include <iterator>
#include <string>

#include <pharos/base/check.hpp>
#include <pharos/object_store/lessee.hpp>

namespace pharos::object_store {
namespace {

constexpr std::size_t kLooks = 64;  // at slots that were busy, before another slab is leased

Error lost(const Location& location) {
  return {ErrorCode::kObjectLost,
          "object " + to_string(location.id) + " is gone: the process that held it has let go of it, or died",
          "Make it again, and keep a Ref of it as long as it is used."};
}

Error child_of_fork() {
  return {ErrorCode::kRuntimeStopped,
          "this process is a child of fork(), and what its parent has in the object store "
          "is the parent's"};
}

}  // namespace

std::string to_string(const ObjectId& id) {
  return to_string(id.maker) + "/" + std::to_string(id.number);
}

Object::~Object() {
  lessee_->let_go(*this);
}

WritableObject::~WritableObject() {
  if (lessee_ != nullptr) lessee_->give_up(location_.place);
}

std::shared_ptr<Object> WritableObject::seal() && {
  const auto lessee = std::exchange(lessee_, nullptr);
  return lessee->seal(location_, readable_);
}

std::shared_ptr<Lessee> Lessee::make(CallerId self, std::uint32_t table, std::unique_ptr<StoreMemory> memory,
                                     std::weak_ptr<Lessor> lessor, Fd life) {
  return std::shared_ptr<Lessee>{new Lessee{self, table, std::move(memory), std::move(lessor), std::move(life)}};
}

Lessee::Lessee(CallerId self, std::uint32_t table, std::unique_ptr<StoreMemory> memory, std::weak_ptr<Lessor> lessor,
               Fd life)
    : self_{self}, table_{table}, memory_{std::move(memory)}, lessor_{std::move(lessor)}, life_{std::move(life)} {}

Lessee::~Lessee() = default;

// ---- Writing

Result<WritableObject> Lessee::create(std::uint64_t bytes, CallerId heir) {
  if (abandoned()) return child_of_fork();
  const std::uint64_t slot_bytes = slot_bytes_for(bytes);
  for (;;) {
    std::uint32_t slot = 0;
    Leased* leased = nullptr;
    Location location;
    {
      const std::lock_guard lock{mutex_};
      if (take_slot(of_size_[slot_bytes], slot)) {
        leased = leased_with(slot);
        location.id = {self_, ++last_number_};
        location.place = ledger().begin(slot, location.id, bytes, heir);
      }
    }
    if (leased == nullptr) {
      PHAROS_TRY_VOID(lease(slot_bytes));
      continue;
    }
    const std::uint32_t index = slot - leased->slab.first_slot;
    if (std::uint64_t& provided = leased->provided[index]; provided < bytes) {
      if (auto done = memory_->provide(leased->slab, index * slot_bytes + provided, bytes - provided); !done) {
        give_up(location.place);
        return std::move(done).error();
      }
      provided = bytes;
    }
    return WritableObject{shared_from_this(),
                          location,
                          {leased->memory + index * slot_bytes, bytes},
                          memory_->objects().subspan(leased->slab.offset + index * slot_bytes, bytes)};
  }
}

Result<void> Lessee::lease(std::uint64_t slot_bytes) {
  const auto lessor = lessor_.lock();
  if (lessor == nullptr) return Error{ErrorCode::kRuntimeStopped, "the object store's node is gone"};
  PHAROS_TRY(const Slab slab, lessor->lease(slot_bytes));
  if (slab.slot_bytes != slot_bytes || slab.slots == 0 || slab.first_slot >= ledger().slots() ||
      slab.slots > ledger().slots() - slab.first_slot || slab.slots > memory_->objects().size() / slot_bytes ||
      slab.offset > memory_->objects().size() - slab.bytes()) {
    return Error{ErrorCode::kCorrupt, "the node gave a slab that lies outside of the object store"};
  }
  auto memory = memory_->open(slab);
  if (!memory) {
    lessor->give_back(slab.first_slot);
    return std::move(memory).error();
  }
  const std::lock_guard lock{mutex_};
  slabs_.insert_or_assign(slab.first_slot, Leased{slab, *memory, std::vector<std::uint64_t>(slab.slots)});
  for (std::uint32_t i = slab.slots; i != 0; --i) of_size_[slot_bytes].free.push_back(slab.first_slot + i - 1);
  free_bytes_ += slab.bytes();
  return {};
}

bool Lessee::take_slot(Slots& slots, std::uint32_t& slot) {
  while (!slots.free.empty()) {
    slot = slots.free.back();
    slots.free.pop_back();
    free_bytes_ -= leased_with(slot)->slab.slot_bytes;
    if (!ledger().pinned(slot)) return true;
    slots.busy.push_back(slot);
  }
  for (std::size_t looks = std::min(slots.busy.size(), kLooks); looks != 0; --looks) {
    slots.looked_at = (slots.looked_at + 1) % slots.busy.size();
    slot = slots.busy[slots.looked_at];
    if (ledger().word_of(slot).state != SlotState::kFree || ledger().pinned(slot)) continue;
    slots.busy[slots.looked_at] = slots.busy.back();
    slots.busy.pop_back();
    return true;
  }
  return false;
}

Lessee::Leased* Lessee::leased_with(std::uint32_t slot) {
  const auto after = slabs_.upper_bound(slot);
  if (after == slabs_.begin()) return nullptr;
  Leased& leased = std::prev(after)->second;
  return slot < leased.slab.first_slot + leased.slab.slots ? &leased : nullptr;
}

std::shared_ptr<Object> Lessee::seal(const Location& location, std::span<const std::byte> readable) {
  ledger().seal(location.place);
  return keep(Object::Share::kHeld, location, readable);
}

void Lessee::give_up(const Place& place) {
  if (abandoned()) return;
  ledger().abandon(place);
  const std::lock_guard lock{mutex_};
  slot_is_free(place.slot);
}

std::shared_ptr<Object> Lessee::keep(Object::Share share, const Location& location, std::span<const std::byte> bytes,
                                     std::uint32_t pin) {
  auto object = std::make_shared<Object>(shared_from_this(), share, location, bytes, pin);
  const std::lock_guard lock{mutex_};
  objects_.emplace(bytes.data(), object.get());
  return object;
}

std::shared_ptr<Object> Lessee::object_with(std::span<const std::byte> bytes) {
  if (abandoned()) return nullptr;
  const std::byte* const begin = bytes.data();
  const std::lock_guard lock{mutex_};
  // Objects lie beside each other, or in the same place.
  for (auto at = objects_.upper_bound(begin); at != objects_.begin();) {
    const auto its = (--at)->second->bytes();
    if (begin + bytes.size() > its.data() + its.size()) return nullptr;
    if (auto object = at->second->weak_from_this().lock()) return object;  // none: its last share is ending
  }
  return nullptr;
}

// ---- Letting go

// Another's slot, of an object that was taken over, is that one's to use again.
void Lessee::slot_is_free(std::uint32_t slot) {
  Leased* const leased = leased_with(slot);
  if (leased == nullptr) return;
  of_size_[leased->slab.slot_bytes].free.push_back(slot);
  free_bytes_ += leased->slab.slot_bytes;
  if (free_bytes_ > kKeptBytes) give_back_if_idle(*leased);
}

void Lessee::let_go(const Object& object) {
  if (abandoned()) return;
  {
    const std::lock_guard lock{mutex_};
    const auto [first, last] = objects_.equal_range(object.bytes().data());
    objects_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == &object; }));
  }
  const Place place = object.location().place;
  if (object.share_ == Object::Share::kPinned) return drop_pin(object.pin_);
  if (object.handed_over_.load()) {
    const std::lock_guard lock{mutex_};
    if (const Leased* const leased = leased_with(place.slot)) {
      of_size_[leased->slab.slot_bytes].busy.push_back(place.slot);
    }
    return;
  }
  ledger().retire(place);
  const std::lock_guard lock{mutex_};
  slot_is_free(place.slot);
}

bool Lessee::give_back_if_idle(Leased& leased) {
  const Slab slab = leased.slab;
  const auto its = [&slab](std::uint32_t slot) {
    return slot >= slab.first_slot && slot < slab.first_slot + slab.slots;
  };
  for (std::uint32_t slot = slab.first_slot; its(slot); ++slot) {
    if (ledger().word_of(slot).state != SlotState::kFree) return false;
  }
  // One that an object of this process still refers to, though it has ended, is in neither list.
  Slots& slots = of_size_[slab.slot_bytes];
  const auto count = [&](const auto& list) { return std::count_if(list.begin(), list.end(), its); };
  const auto free = count(slots.free);
  if (static_cast<std::uint32_t>(free + count(slots.busy)) != slab.slots) return false;
  std::erase_if(slots.free, its);
  std::erase_if(slots.busy, its);
  slots.looked_at = 0;
  free_bytes_ -= static_cast<std::uint64_t>(free) * slab.slot_bytes;
  memory_->close(slab);
  slabs_.erase(slab.first_slot);
  if (const auto lessor = lessor_.lock()) lessor->give_back(slab.first_slot);
  return true;
}

void Lessee::trim() {
  const std::lock_guard lock{mutex_};
  std::vector<std::uint32_t> firsts;
  for (const auto& [first, leased] : slabs_) firsts.push_back(first);
  for (const std::uint32_t first : firsts) give_back_if_idle(slabs_.at(first));
}

// ---- Reading

Result<std::uint32_t> Lessee::take_pin() {
  const std::lock_guard lock{mutex_};
  if (!free_pins_.empty()) {
    const std::uint32_t pin = free_pins_.back();
    free_pins_.pop_back();
    return pin;
  }
  if (pins_ < kPinsMax) return pins_++;
  return Error{ErrorCode::kExhausted,
               "this process reads " + std::to_string(kPinsMax) + " objects of others at once, which is the most",
               "Let go of values that are views."};
}

void Lessee::drop_pin(std::uint32_t pin) {
  ledger().unpin(table_, pin);
  const std::lock_guard lock{mutex_};
  free_pins_.push_back(pin);
}

Result<std::shared_ptr<Object>> Lessee::pin(const Location& location, Object::Share share) {
  PHAROS_TRY(const std::uint32_t pin, take_pin());
  const auto pinned = ledger().pin(table_, pin, location);
  const auto objects = memory_->objects();
  const bool inside = pinned && pinned->offset <= objects.size() && pinned->size <= objects.size() - pinned->offset;
  if (!inside) {
    drop_pin(pin);
    if (!pinned) return lost(location);
    return Error{ErrorCode::kCorrupt, "object " + to_string(location.id) + " lies outside of the object store"};
  }
  const auto bytes = objects.subspan(pinned->offset, pinned->size);
  if (share == Object::Share::kPinned) {
    return keep(share, location, bytes, pin);
  }
  // While it is pinned its slot is not used again, so that the holder's word is this object's.
  const bool taken = ledger().take_over(location, self_);
  const SlotWord word = ledger().word_of(location.place.slot);
  drop_pin(pin);
  if (!taken || word.state != SlotState::kSealed || word.generation != location.place.generation) return lost(location);
  return keep(share, location, bytes);
}

Result<std::shared_ptr<Object>> Lessee::borrow(const Location& location) {
  if (abandoned()) return child_of_fork();
  return pin(location, Object::Share::kPinned);
}

Result<std::shared_ptr<Object>> Lessee::take_over(const Location& location) {
  if (abandoned()) return child_of_fork();
  return pin(location, Object::Share::kHeld);
}

}  // namespace pharos::object_store
