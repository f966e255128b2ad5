#include <algorithm>
#include <iterator>
#include <string>

#include <pharos/base/check.hpp>
#include <pharos/object_store/failpoints.hpp>
#include <pharos/object_store/object_memory.hpp>
#include <pharos/object_store/store_client.hpp>

namespace pharos::object_store {
namespace {

constexpr std::size_t kCopiedAtOnce = std::size_t{4} << 20;
constexpr int kImports = 3;         // attempts, if the object ends each time before this process has kept it
constexpr std::size_t kLooks = 64;  // busy slots that are checked before another slab is leased

Error node_is_gone() {
  return {ErrorCode::kRuntimeStopped, "the object store's node is gone"};
}

Error child_of_fork() {
  return {ErrorCode::kRuntimeStopped,
          "this process is a child of fork(), and what its parent has in the object store "
          "is the parent's"};
}

/// The stores that this process uses. Any thread.
class StoreClients {
 public:
  static StoreClients& of_process() {
    static auto& clients = *new StoreClients;  // a StoreClient may end after what is static
    return clients;
  }

  void add(StoreClient& client) {
    const std::lock_guard lock{mutex_};
    all_.push_back(&client);
  }
  /// `memory` is about to be unmapped.
  void remove(StoreClient& client, std::span<const std::byte> memory) {
    void (*call)(std::span<const std::byte>) = nullptr;
    {
      const std::lock_guard lock{mutex_};
      std::erase(all_, &client);
      call = before_unmapping_;
    }
    if (call != nullptr) call(memory);
  }
  /// Those that have not begun to end.
  std::vector<std::shared_ptr<StoreClient>> all() {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<StoreClient>> clients;
    for (StoreClient* const each : all_) {
      if (auto client = each->weak_from_this().lock()) clients.push_back(std::move(client));
    }
    return clients;
  }
  void before_unmapping(void (*call)(std::span<const std::byte> memory)) {
    const std::lock_guard lock{mutex_};
    before_unmapping_ = call;
  }

 private:
  std::mutex mutex_;
  std::vector<StoreClient*> all_;
  void (*before_unmapping_)(std::span<const std::byte> memory) = nullptr;
};

}  // namespace

Object::~Object() {
  client_->let_go(*this);
}

// With the pin set, the memory stays, or will stay where the object is brought back to, as long as the view exists.
Result<std::shared_ptr<const View>> Object::begin_reading(bool& in_memory) {
  {
    const std::lock_guard lock{mutex_};
    in_memory = true;
    if (auto view = view_.lock()) return view;
    if (client_->abandoned()) return child_of_fork();
    if (!pin_) {
      PHAROS_TRY(pin_, client_->take_pin());
    }
    ++readings_;
  }
  auto view = std::make_shared<const View>(shared_from_this());
  const auto pinned = client_->ledger().pin(client_->table_, *pin_, PinKind::kRead, location_);
  PHAROS_CHECK(pinned, location_.place.slot, location_.place.generation);  // this share keeps the object from ending
  in_memory = pinned->in_memory;
  const std::lock_guard lock{mutex_};
  if (in_memory) view_ = view;
  return view;
}

Result<std::shared_ptr<const View>> Object::read_now() {
  bool in_memory = false;
  PHAROS_TRY(auto view, begin_reading(in_memory));
  if (!in_memory) return std::shared_ptr<const View>{};
  return view;
}

Result<std::shared_ptr<const View>> Object::read() {
  bool in_memory = false;
  PHAROS_TRY(auto view, begin_reading(in_memory));
  if (in_memory) return view;
  const auto node = client_->node_.lock();
  if (node == nullptr) return node_is_gone();
  failpoint(failpoints::kObjectAskedFor);
  PHAROS_TRY_VOID(node->bring(location_));
  const std::lock_guard lock{mutex_};
  view_ = view;
  return view;
}

bool Object::in_memory() const {
  return client_->ledger().word_of(location_.place.slot).state != SlotState::kOut;
}

std::uint64_t Object::releases() const {
  const auto begin = static_cast<std::uint64_t>(bytes_.data() - client_->memory_->objects().data());
  return client_->ledger().releases().of(begin, bytes_.size());
}

NodeId Object::nearest() const {
  const NodeId origin = origin_.load();
  return origin && !in_memory() ? origin : client_->self_.node;
}

void Object::end_reading() {
  if (client_->abandoned()) return;
  const std::lock_guard lock{mutex_};
  if (--readings_ != 0) return;
  if (share_ == Share::kKept) {
    client_->ledger().pin(client_->table_, *pin_, PinKind::kKeep, location_);
  } else {
    client_->drop_pin(*std::exchange(pin_, std::nullopt));
  }
}

WritableObject::~WritableObject() {
  if (client_ != nullptr) client_->give_up(location_.place);
}

std::shared_ptr<Object> WritableObject::seal() && {
  client_->note_populated(location_.place,
                          bytes_.size());  // all of it was written, so all its pages are in the page tables
  const auto client = std::exchange(client_, nullptr);
  return client->seal(location_, readable_);
}

std::shared_ptr<StoreClient> StoreClient::make(const Self& self, std::uint32_t table,
                                               std::unique_ptr<StoreMemory> memory, std::weak_ptr<StoreNode> node,
                                               Fd life) {
  return std::shared_ptr<StoreClient>{
      new StoreClient{self, table, std::move(memory), std::move(node), std::move(life)}};
}

StoreClient::StoreClient(const Self& self, std::uint32_t table, std::unique_ptr<StoreMemory> memory,
                         std::weak_ptr<StoreNode> node, Fd life)
    : self_{self}, table_{table}, memory_{std::move(memory)}, node_{std::move(node)}, life_{std::move(life)} {
  StoreClients::of_process().add(*this);
}

StoreClient::~StoreClient() {
  StoreClients::of_process().remove(*this, memory_->objects());
}

// ---- Writing

Result<WritableObject> StoreClient::create(std::uint64_t bytes, CallerId heir, std::string_view label) {
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
        location.id = {self_.caller, ++last_number_};
        location.owner = self_.caller;
        location.node = self_.node;
        location.place = ledger().begin(slot, location.id, bytes, heir, label);
        failpoint(failpoints::kSlotBegun);
      }
    }
    if (leased == nullptr) {
      PHAROS_TRY_VOID(lease(slot_bytes));
      continue;
    }
    const std::uint32_t index = slot - leased->slab.first_slot;
    if (const std::uint64_t provided = ledger().provided(slot); provided < bytes) {
      if (auto done = memory_->provide(leased->slab, index * slot_bytes + provided, bytes - provided); !done) {
        give_up(location.place);
        return std::move(done).error();
      }
      ledger().note_provided(slot, bytes);
    }
    if (failpoint(failpoints::kSlotProvided)) {
      give_up(location.place);
      return Error{ErrorCode::kExhausted, "there is no memory, says a failpoint"};
    }
    return WritableObject{shared_from_this(),
                          location,
                          {leased->memory + index * slot_bytes, bytes},
                          memory_->objects().subspan(leased->slab.offset + index * slot_bytes, bytes),
                          leased->populated[index] >= bytes};
  }
}

void StoreClient::note_populated(const Place& place, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  Leased* const leased = leased_with(place.slot);
  auto& populated = leased->populated[place.slot - leased->slab.first_slot];
  populated = std::max<std::uint64_t>(populated, bytes);
}

std::span<std::byte> WritableObject::bytes() {
  if (!populated_) {
    client_->populate(bytes_);
    populated_ = true;
  }
  return bytes_;
}

void WritableObject::write(std::byte* to, const void* from, std::size_t count) {
  const auto* const source = static_cast<const std::byte*>(from);
  client_->spare_core_.run((count + kCopiedAtOnce - 1) / kCopiedAtOnce, [&](std::size_t piece) {
    const std::size_t begin = piece * kCopiedAtOnce;
    const std::size_t size = std::min(kCopiedAtOnce, count - begin);
    if (!populated_) client_->populate({to + begin, size});
    copy_streaming(to + begin, source + begin, size);
  });
}

Result<void> StoreClient::lease(std::uint64_t slot_bytes) {
  const auto node = node_.lock();
  if (node == nullptr) return node_is_gone();
  PHAROS_TRY(const Slab slab, node->lease(slot_bytes));
  failpoint(failpoints::kSlabLeased);
  if (slab.slot_bytes != slot_bytes || slab.slots == 0 || slab.first_slot >= ledger().slots() ||
      slab.slots > ledger().slots() - slab.first_slot || slab.slots > memory_->objects().size() / slot_bytes ||
      slab.offset > memory_->objects().size() - slab.bytes()) {
    return Error{ErrorCode::kCorrupt, "the node leased a slab that is outside of the object store"};
  }
  auto memory = memory_->open(slab);
  if (!memory) {
    node->give_back(slab.first_slot);
    return std::move(memory).error();
  }
  const std::lock_guard lock{mutex_};
  slabs_.insert_or_assign(slab.first_slot,
                          Leased{.slab = slab, .memory = *memory, .populated = std::vector<std::uint64_t>(slab.slots)});
  for (std::uint32_t i = slab.slots; i != 0; --i) of_size_[slot_bytes].free.push_back(slab.first_slot + i - 1);
  free_bytes_ += slab.bytes();
  return {};
}

bool StoreClient::take_slot(Slots& slots, std::uint32_t& slot) {
  if (!slots.free.empty()) {
    slot = slots.free.back();
    slots.free.pop_back();
    free_bytes_ -= leased_with(slot)->slab.slot_bytes;
    return true;
  }
  for (std::size_t looks = std::min(slots.busy.size(), kLooks); looks != 0 && !slots.busy.empty(); --looks) {
    slots.looked_at = (slots.looked_at + 1) % slots.busy.size();
    slot = slots.busy[slots.looked_at];
    if (ledger().end(slot)) {
      slots.busy[slots.looked_at] = slots.busy.back();
      slots.busy.pop_back();
      return true;
    }
    if (ledger().word_of(slot).state == SlotState::kGone) give_back_if_idle(*leased_with(slot));
  }
  return false;
}

StoreClient::Leased* StoreClient::leased_with(std::uint32_t slot) {
  const auto after = slabs_.upper_bound(slot);
  if (after == slabs_.begin()) return nullptr;
  Leased& leased = std::prev(after)->second;
  return slot < leased.slab.first_slot + leased.slab.slots ? &leased : nullptr;
}

std::shared_ptr<Object> StoreClient::seal(const Location& location, std::span<const std::byte> readable) {
  failpoint(failpoints::kObjectWritten);
  ledger().seal(location.place);
  failpoint(failpoints::kObjectSealed);
  return add(Object::Share::kHeld, location, readable);
}

void StoreClient::give_up(const Place& place) {
  if (abandoned()) return;
  ledger().abandon(place);
  const std::lock_guard lock{mutex_};
  slot_is_free(place.slot);
}

std::shared_ptr<Object> StoreClient::add(Object::Share share, const Location& location,
                                         std::span<const std::byte> bytes, std::optional<std::uint32_t> pin) {
  auto object = std::make_shared<Object>(shared_from_this(), share, location, bytes, pin);
  const std::lock_guard lock{mutex_};
  objects_.emplace(bytes.data(), object.get());
  return object;
}

std::shared_ptr<Object> StoreClient::object_with(std::span<const std::byte> bytes) {
  if (abandoned()) return nullptr;
  const std::byte* const begin = bytes.data();
  const std::lock_guard lock{mutex_};
  // Objects do not overlap, but one that was handed over may lie at the same place as a newer share of it.
  for (auto at = objects_.upper_bound(begin); at != objects_.begin();) {
    const auto its = (--at)->second->bytes_;
    if (begin + bytes.size() > its.data() + its.size()) return nullptr;
    if (at->second->handed_over_.load()) continue;
    if (auto object = at->second->weak_from_this().lock()) return object;  // null if its last share is being destroyed
  }
  return nullptr;
}

// ---- Letting go

void StoreClient::slot_is_free(std::uint32_t slot) {
  Leased* const leased = leased_with(slot);
  of_size_[leased->slab.slot_bytes].free.push_back(slot);
  free_bytes_ += leased->slab.slot_bytes;
  if (free_bytes_ > kKeptBytes) give_back_if_idle(*leased);
}

void StoreClient::let_go(const Object& object) {
  if (abandoned()) return;
  {
    const std::lock_guard lock{mutex_};
    const auto [first, last] = objects_.equal_range(object.bytes_.data());
    objects_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == &object; }));
  }
  if (object.pin_) drop_pin(*object.pin_);
  if (object.share_ == Object::Share::kKept) return;
  const std::uint32_t slot = object.location().place.slot;
  if (!object.handed_over_.load()) ledger().let_go(object.location().place);
  failpoint(failpoints::kObjectLetGo);
  const std::lock_guard lock{mutex_};
  const Leased* const leased = leased_with(slot);
  if (leased == nullptr) return;  // the slot belongs to another process, from which the object was taken over
  if (!object.handed_over_.load() && ledger().end(slot)) {
    failpoint(failpoints::kObjectEnded);
    slot_is_free(slot);
  } else {
    of_size_[leased->slab.slot_bytes].busy.push_back(slot);
  }
}

bool StoreClient::give_back_if_idle(Leased& leased) {
  const Slab slab = leased.slab;
  const auto its = [&slab](std::uint32_t slot) {
    return slot >= slab.first_slot && slot < slab.first_slot + slab.slots;
  };
  for (std::uint32_t slot = slab.first_slot; its(slot); ++slot) {
    if (ledger().word_of(slot).state != SlotState::kGone && !ledger().end(slot)) return false;
  }
  // A slot whose object has ended, but to which an Object of this process still refers, is in neither list.
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
  failpoint(failpoints::kSlabGivenUp);
  if (const auto node = node_.lock()) node->give_back(slab.first_slot);
  return true;
}

void StoreClient::trim() {
  const std::lock_guard lock{mutex_};
  std::vector<std::uint32_t> firsts;
  for (const auto& [first, leased] : slabs_) firsts.push_back(first);
  for (const std::uint32_t first : firsts) give_back_if_idle(slabs_.at(first));
}

// ---- Reading

Result<std::uint32_t> StoreClient::take_pin() {
  constexpr std::uint32_t kProvided = 4088;  // at once; after that many a page of the table ends
  const std::lock_guard lock{mutex_};
  if (!free_pins_.empty()) {
    const std::uint32_t pin = free_pins_.back();
    free_pins_.pop_back();
    return pin;
  }
  if (pins_ == kPinsMax) {
    return Error{ErrorCode::kExhausted,
                 "this process uses " + std::to_string(kPinsMax) + " objects of others at once, which is the most",
                 "Let go of Refs, and of values that are views."};
  }
  if (pins_ == provided_pins_) {
    const std::uint32_t more = std::min(provided_pins_ + kProvided, kPinsMax);
    PHAROS_TRY_VOID(memory_->provide_pins(table_, more));
    provided_pins_ = more;
  }
  return pins_++;
}

void StoreClient::drop_pin(std::uint32_t pin) {
  ledger().unpin(table_, pin);
  const std::lock_guard lock{mutex_};
  free_pins_.push_back(pin);
}

// Returns nullopt if the object has ended.
Result<std::optional<StoreClient::Kept>> StoreClient::keep(const Location& location) {
  PHAROS_TRY(const std::uint32_t pin, take_pin());
  const auto pinned = ledger().pin(table_, pin, PinKind::kKeep, location);
  failpoint(failpoints::kObjectKept);
  const auto objects = memory_->objects();
  const bool inside = pinned && pinned->offset <= objects.size() && pinned->size <= objects.size() - pinned->offset;
  if (inside) return std::optional{Kept{pin, objects.subspan(pinned->offset, pinned->size)}};
  drop_pin(pin);
  if (!pinned) return std::optional<Kept>{};
  return Error{ErrorCode::kCorrupt, "object " + to_string(location.id) + " lies outside of the object store"};
}

Result<std::shared_ptr<Object>> StoreClient::borrow_here(const Location& location) {
  PHAROS_CHECK(is_here(location), location.node, self_.node);
  if (abandoned()) return child_of_fork();
  PHAROS_TRY(const auto kept, keep(location));
  if (!kept) return lost(location);
  if (auto object = object_with(kept->bytes); object != nullptr && object->location() == location) {
    drop_pin(kept->pin);
    return object;
  }
  return add(Object::Share::kKept, location, kept->bytes, kept->pin);
}

Result<std::shared_ptr<Object>> StoreClient::borrow(const Location& location) {
  if (abandoned()) return child_of_fork();
  const auto node = node_.lock();
  if (is_here(location)) {
    auto object = borrow_here(location);
    if (object || object.error().code() != ErrorCode::kObjectLost) return object;
    if (node == nullptr) return node_is_gone();
    auto why = node->bring(location);
    if (!why) return std::move(why).error();
    return object;
  }
  if (node == nullptr) return node_is_gone();
  for (int attempt = 1;; ++attempt) {
    PHAROS_TRY(const Location here, node->import(location));
    if (!is_here(here)) return Error{ErrorCode::kCorrupt, "the node answered with an object of another node"};
    auto object = borrow_here(here);
    if (object) (*object)->note_origin(location.node);
    // The node keeps the object only for a moment, which this thread may have missed.
    if (object || object.error().code() != ErrorCode::kObjectLost || attempt == kImports) return object;
  }
}

Result<std::shared_ptr<Object>> StoreClient::take_over(const Location& location) {
  if (abandoned()) return child_of_fork();
  PHAROS_TRY(const auto kept, keep(location));
  if (!kept) return lost(location);
  // While the object is pinned, its slot is not used again, so the word of the holder belongs to this object.
  const bool taken = ledger().take_over(location, self_.caller);
  failpoint(failpoints::kObjectTaken);
  drop_pin(kept->pin);
  if (!taken) return lost(location);
  return add(Object::Share::kHeld, {location.id, location.place, self_.caller, self_.node}, kept->bytes);
}

// ---- For devices

std::optional<ObjectMemory> object_memory(std::span<const std::byte> bytes) {
  for (const auto& client : StoreClients::of_process().all()) {
    if (const auto object = client->object_with(bytes)) return ObjectMemory{object->where(), object->releases()};
  }
  return std::nullopt;
}

void before_unmapping(void (*call)(std::span<const std::byte> memory)) {
  StoreClients::of_process().before_unmapping(call);
}

}  // namespace pharos::object_store
