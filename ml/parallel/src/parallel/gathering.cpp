#include "parallel/gathering.hpp"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kWhat = "gathering";
constexpr std::size_t kPathMax = 1 << 16;  // so many units of a path are listed; the hash covers all

bool is_in(std::uint32_t unit, std::span<const std::uint32_t> units) {
  return std::find(units.begin(), units.end(), unit) != units.end();
}
bool is_in_backward() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool are_kept_as_computed(const std::vector<ShardedUnit>& units) {
  return std::ranges::all_of(units, [](const ShardedUnit& unit) {
    return std::ranges::all_of(unit.shards, [](const Shard& each) { return each.computed == kept_type(each.flat); });
  });
}

// This rank notices only its own changes, and not those of the other ranks. So it cannot decide on its own to gather
// the unit again.
[[noreturn]] void throw_changed(const std::string& unit) {
  throw_error(Error{
      ErrorCode::kFailedPrecondition,
      '"' + unit + "\" was changed on this rank after it had been gathered, so the module would mix new and old values",
      "Train with an Optimizer of Sharded::groups(), or call Sharded::refresh() before each step and after it."});
}

}  // namespace

Gathering::Gathering(const Communicator& ranks, std::vector<ShardedUnit>& units, Staying staying)
    : ranks_{ranks},
      units_{units},
      staying_{staying},
      reads_in_place_{ranks.shares_memory() && are_kept_as_computed(units)},
      places_(units.size()),
      order_(units.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  take_memory();
}

void Gathering::take_memory() {
  if (reads_in_place_) {
    std::size_t bytes = 0;
    for (const ShardedUnit& each : units_) bytes += each.bytes;
    std::byte* memory = memories_.emplace_back(ranks_.allocate_for_all<std::byte>(bytes)).data();
    for (std::size_t i = 0; i < units_.size(); ++i) places_[i].own = std::exchange(memory, memory + units_[i].bytes);
    return;
  }
  std::size_t passing = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (staying_ == Staying::kAll || units_[i].is_rest) {
      places_[i].own = memories_.emplace_back(ranks_.allocate<std::byte>(units_[i].bytes)).data();
    } else {
      ++passing;
      room_bytes_ = std::max(room_bytes_, units_[i].bytes);
    }
  }
  while (rooms_.size() < std::min(passing, kGatheredAtOnce))
    rooms_.push_back({ranks_.allocate<std::byte>(room_bytes_)});
}

Gathering::~Gathering() {
  for (Place& each : places_) each.coming.clear();  // waits for the gathers, before their memory is released
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].shards.front().whole.defined()) point(i, nullptr);
  }
}

void Gathering::begin() {
  std::vector<Watch::Numbered> memory;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    for (const Shard& each : units_[i].shards) {
      memory.emplace_back(each.whole.storage().unsafeGetStorageImpl(), static_cast<std::uint32_t>(i));
    }
  }
  watch_.emplace(*this, memory);
}

void Gathering::refresh(bool also_frozen) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    finish(i);
    places_[i].is_there = false;
    if (also_frozen) places_[i].has_frozen = false;
    if (places_[i].room != nullptr) leave(i);
  }
  last_ = static_cast<std::uint32_t>(-1);
  is_read_ = false;
}

void Gathering::end_reading() {
  if (is_read_) ranks_.barrier();
}

void Gathering::begin_counting() {
  path_.clear();
  path_hash_ = 0;
  gathers_ = 0;
  waited_ = {};
}

std::vector<std::size_t> Gathering::order_of_touch() const {
  std::vector<std::size_t> order = by_turn_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].turn == kNever) order.push_back(i);
  }
  return order;
}

std::size_t Gathering::bytes() const {
  if (reads_in_place_) return 0;
  std::size_t bytes = rooms_.size() * room_bytes_;
  for (const auto& each : memories_) bytes += each.size();
  return bytes;
}

// ---- What operators work on

void Gathering::touched(std::span<const std::uint32_t> numbers) noexcept {
  if (failure_ != nullptr) return;
  try {
    std::optional<std::uint32_t> last;
    for (const std::uint32_t each : numbers) {
      if (need(each, numbers)) last = each;
    }
    // Only after all units of the operator are there: the next unit must not take the room of one of them.
    if (last) fetch_next(*last, numbers);
  } catch (...) {
    fail(std::current_exception());
  }
}

/// Brings the unit if it is not there. Returns whether the unit that is used after it should be fetched.
bool Gathering::need(std::uint32_t unit, std::span<const std::uint32_t> beside) {
  Place& place = places_[unit];
  const bool is_used_again = last_ == unit && place.is_there;
  // Repeated uses of a unit skip the check below. With one unit only all uses are repeated, so it must run each time.
  if (is_used_again && units_.size() > 1) return false;
  const bool is_begun = place.is_there || !place.coming.empty();
  if (is_begun && place.version != version_of(unit)) throw_changed(units_[unit].name);
  if (is_used_again) return false;
  touch(unit);
  const bool comes = !place.is_there;
  if (comes) {
    const TimePoint began = std::chrono::steady_clock::now();
    bring(unit, beside);
    waited_ += std::chrono::steady_clock::now() - began;
  }
  last_ = unit;
  // For the unit that stays, only the first use in a step says which unit comes next. A later use, for instance by a
  // head, may be the last of the step.
  return staying_ == Staying::kRest && (comes || !units_[unit].is_rest);
}

void Gathering::bring(std::uint32_t unit, std::span<const std::uint32_t> beside) {
  Place& place = places_[unit];
  between_ranks(kWhat, units_[unit], [&] {
    if (reads_in_place_) return meet();
    if (staying_ == Staying::kAll) {
      for (const std::size_t each : order_) {
        if (!places_[each].is_there && places_[each].coming.empty()) begin_gather(each);
      }
    } else if (place.coming.empty()) {
      if (place.own == nullptr) find_room(unit, beside, Growth::kAllowed);
      begin_gather(unit);
    }
    finish(unit);
  });
  place.is_there = true;
}

void Gathering::touch(std::uint32_t unit) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  Place& place = places_[unit];
  if (place.turn == kNever) {
    place.turn = by_turn_.size();
    by_turn_.push_back(unit);
  }
  place.used = ++clock_;
  if (path_.size() < kPathMax) path_.push_back(unit);
  path_hash_ = (path_hash_ ^ (unit + 1)) * kMix;
}

/// Waits until all ranks have written the parts that they keep. After that all units are there.
void Gathering::meet() {
  ranks_.barrier();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].is_there = true;
    places_[i].version = version_of(i);
  }
  is_read_ = true;
}

void Gathering::begin_gather(std::size_t number) {
  Place& place = places_[number];
  ++gathers_;
  place.version = version_of(number);
  for (Shard& shard : units_[number].shards) {
    if (place.has_frozen && !shard.flat.is_trained) continue;
    const std::span<std::byte> whole = bytes_of(shard.whole);
    const std::size_t size = whole.size() / ranks_.size();
    std::span<const std::byte> from = whole.subspan(ranks_.rank() * size, size);
    if (shard.own.scalar_type() == shard.computed) {
      from = bytes_of(shard.own);
    } else {
      tensor_on(whole.data() + ranks_.rank() * size, shard.device, shard.computed, shard.flat.piece).copy_(shard.own);
    }
    place.coming.push_back(ranks_.begin_all_gather(from, whole));
  }
  place.has_frozen = place.own != nullptr;
}

/// The version of the part that this rank keeps: libtorch counts the writes to each tensor.
std::uint64_t Gathering::version_of(std::size_t number) const {
  std::uint64_t version = 0;
  for (const Shard& each : units_[number].shards) version += each.own._version();
  return version;
}

/// What is computed from now on comes after the gathers of the unit that have been begun. On a GPU the host does not
/// wait for them.
void Gathering::finish(std::size_t number) {
  for (Pending& each : places_[number].coming) each.join();
  places_[number].coming.clear();
}

void Gathering::advance() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    between_ranks(kWhat, units_[i], [&] {
      for (Pending& each : places_[i].coming) each.done();
    });
  }
}

/// Begins to gather the unit that is expected next: in forward the one that was first touched after this unit, in
/// backward the one that was first touched before it.
void Gathering::fetch_next(std::size_t number, std::span<const std::uint32_t> beside) {
  const std::size_t turn = places_[number].turn;
  const std::size_t next = is_in_backward() ? turn - 1 : turn + 1;  // before the first this wraps to a huge number
  if (next >= by_turn_.size()) return;
  const std::size_t unit = by_turn_[next];
  Place& place = places_[unit];
  if (place.is_there || !place.coming.empty()) return;
  if (place.own == nullptr && !find_room(unit, beside, Growth::kNone)) return;
  begin_gather(unit);
  place.used = ++clock_;
}

// ---- Rooms

/// Gives the unit the room that was not used for the longest time. Never takes the room of a unit in `beside`, or of
/// the unit that was used last. Returns false if no room is left, and none may be added.
bool Gathering::find_room(std::size_t number, std::span<const std::uint32_t> beside, Growth growth) {
  Room* found = nullptr;
  const auto used = [&](const Room& room) { return room.holder == kNever ? 0 : places_[room.holder].used; };
  for (Room& each : rooms_) {
    const bool is_free = each.holder == kNever;
    if (!is_free && (is_in(static_cast<std::uint32_t>(each.holder), beside) || each.holder == last_)) continue;
    if (found == nullptr || used(each) < used(*found)) found = &each;
  }
  if (found == nullptr && growth == Growth::kNone) return false;
  if (found == nullptr) found = &rooms_.emplace_back(Room{ranks_.allocate<std::byte>(room_bytes_)});
  if (found->holder != kNever) leave(found->holder);
  found->holder = number;
  places_[number].room = found;
  point(number, found->memory.data());
  return true;
}

void Gathering::leave(std::size_t number) {
  finish(number);
  Place& place = places_[number];
  place.is_there = false;
  place.room->holder = kNever;
  place.room = nullptr;
  point(number, nullptr);
}

void Gathering::point(std::size_t number, std::byte* memory) {
  for (const Shard& each : units_[number].shards) {
    ml::place(each.whole, memory == nullptr ? nullptr : memory + each.place);
  }
}

// libtorch goes on with the operator whatever happens here, so the operator must read numbers that cannot be mistaken
// for results. The part that this rank keeps is not changed: it may be all that is left of the parameters.
void Gathering::fail(std::exception_ptr why) {
  failure_ = std::move(why);
  std::size_t largest = 0;
  for (const ShardedUnit& each : units_) largest = std::max(largest, each.bytes);
  nan_memory_.emplace(largest, units_.front().shards.front().device);
  for (std::size_t i = 0; i < units_.size(); ++i) point(i, nan_memory_->data());
}

}  // namespace pharos::ml
