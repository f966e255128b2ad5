#include "store/spilling.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/node/failpoints.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kDiskTime = 1s;        // after an error of the disk, before it is used again
constexpr auto kSpillAgainTime = 1s;  // after too few objects could go early, before the next attempt

// Percentages of the capacity: when more than the first is lent, objects go to disk until it is less than the second.
constexpr std::uint64_t kSpillAbove = 80;
constexpr std::uint64_t kSpillUntil = 75;

}  // namespace

Spilling::Spilling(async::Executor& executor, std::shared_ptr<NodeStore> store, StoreWork& work, Settings settings,
                   Events events)
    : executor_{executor},
      store_{std::move(store)},
      work_{work},
      settings_{std::move(settings)},
      events_{std::move(events)} {}

// ---- Out of memory

void Spilling::spill_early() {
  const std::uint64_t capacity = store_->book.capacity().bytes();
  const std::uint64_t lent = store_->book.lent_memory() - std::min(store_->book.lent_memory(), leaving_bytes_);
  if (lent <= capacity / 100 * kSpillAbove || executor_.now() < early_again_) return;
  if (!spill(lent - capacity / 100 * kSpillUntil)) early_again_ = executor_.now() + kSpillAgainTime;
}

bool Spilling::spill(std::uint64_t bytes) {
  if (!settings_.make_file || executor_.now() < again_ || !open_disk()) return false;
  std::uint64_t leaving = 0;
  for (const Body& body : store_->book.choose_leaving(bytes, leaving_)) {
    leaving += body.slot_bytes;
    leaving_bytes_ += body.slot_bytes;
    leaving_.insert(body.location.place);
    if (const auto copy = copies_.find(body.location.place); copy != copies_.end()) {
      take_out(body, copy->second, {});
    } else if (settings_.elsewhere(body.location.place)) {
      take_out(body, std::nullopt, {});
    } else {
      write(body);
    }
  }
  return leaving >= bytes;
}

bool Spilling::open_disk() {
  if (store_->disk != nullptr) return true;
  auto file = settings_.make_file();
  if (!file) {
    trouble_ = std::move(file).error();
    again_ = executor_.now() + kDiskTime;
    return false;
  }
  store_->disk = std::make_unique<object_store::SpillFile>(*std::move(file), settings_.folder);
  return true;
}

void Spilling::write(const Body& body) {
  auto place = store_->disk->reserve(body.size);
  if (!place) return has_not_left(body, std::move(place).error());
  const auto kept = std::make_shared<Kept>(*std::move(place));
  work_.run_in_parts(
      body.size,
      [body, kept](const NodeStore& store, std::size_t first, std::size_t count) -> Result<void> {
        PHAROS_TRY_VOID(store.disk->write(*kept, first, count, store.objects, body.offset));
        if (!failpoint(failpoints::kObjectSpilled)) return {};
        return Error{ErrorCode::kExhausted, "the disk is full, says a failpoint"};
      },
      [this, body, kept](Result<void> written) { take_out(body, *kept, std::move(written)); });
}

// Takes the memory of an object that is on disk or at another node.
void Spilling::take_out(const Body& body, const std::optional<Kept>& kept, Result<void> written) {
  work_.run(
      [body, kept, written = std::move(written)](NodeStore& store) -> Result<Left> {
        if (!written) {
          store.disk->drop(*kept);
          return written.error();
        }
        // False if a reader has called the object back, or if it has ended.
        const bool is_out = store.ledger.note_out(body.location.place);
        if (is_out) {
          failpoint(failpoints::kObjectOut);
          store.ledger.note_provided(body.location.place.slot, 0);
          store.release(body.offset, body.slot_bytes);
          failpoint(failpoints::kMemoryGone);
        }
        return Left{kept, is_out};
      },
      [this, body](Result<Left> left) { has_left(body, std::move(left)); });
}

void Spilling::has_left(const Body& body, Result<Left> left) {
  if (!left) return has_not_left(body, std::move(left).error());
  leaving_bytes_ -= body.slot_bytes;
  leaving_.erase(body.location.place);
  if (executor_.now() >= again_) trouble_.reset();  // unless another write has failed meanwhile
  if (left->is_out) store_->book.left(body.location.place);
  if (left->kept) copies_.emplace(body.location.place, *std::move(left->kept));
  events_.left();
}

void Spilling::has_not_left(const Body& body, Error why) {
  leaving_bytes_ -= body.slot_bytes;
  leaving_.erase(body.location.place);
  store_->ledger.stay(body.location.place);
  log(LogLevel::kWarn, "an object could not go to disk", {kv("error", why)});
  trouble_ = std::move(why);
  again_ = executor_.now() + kDiskTime;
  // The disk needs room more than it needs copies of objects that are in memory.
  end_unused();
  const std::size_t dropped = drop_copies([&](const Place& place) { return !store_->book.is_outside(place); });
  if (dropped != 0) again_ = executor_.now();
  events_.failed();
}

// ---- Back to memory

void Spilling::read_back(const Body& body, async::UniqueFunction<void(Result<void>)> done) {
  reading_.insert(body.location.place);
  work_.run_in_parts(
      body.size,
      [body, kept = copies_.at(body.location.place)](const NodeStore& store, std::size_t first,
                                                     std::size_t count) -> Result<void> {
        if (failpoint(failpoints::kObjectReturns)) {
          return Error{ErrorCode::kCorrupt, "the object is damaged, says a failpoint"};
        }
        PHAROS_TRY_VOID(store.disk->read(kept, first, count, store.objects, body.offset));
        if (first != 0 || body.slot_bytes == body.size) return {};
        // The slot is written again up to its end when a process leases it later, so all of it gets storage.
        return store.objects.allocate(body.offset + body.size, body.slot_bytes - body.size);
      },
      [this, body, done = std::move(done)](Result<void> read) mutable {
        reading_.erase(body.location.place);
        done(std::move(read));
      });
}

// ---- Objects that have ended

void Spilling::end_unused() {
  store_->book.end_outside();
  drop_copies([&](const Place& place) {
    static_cast<void>(store_->ledger.end(place.slot));
    const object_store::SlotWord word = store_->ledger.word_of(place.slot);
    return !word.has_object() || word.generation != place.generation;
  });
}

template <class Condition>
std::size_t Spilling::drop_copies(Condition which) {
  std::size_t dropped = 0;
  for (auto each = copies_.begin(); each != copies_.end();) {
    const Place& place = each->first;
    if (leaving_.contains(place) || reading_.contains(place) || !which(place)) {
      ++each;
      continue;
    }
    work_.run(
        [kept = std::move(each->second)](NodeStore& store) {
          store.disk->drop(kept);
          return true;
        },
        [](bool) {});
    each = copies_.erase(each);
    ++dropped;
  }
  return dropped;
}

}  // namespace pharos::node
