#include "store/memory_requests.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <pharos/node/failpoints.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kFullTime = 1s;
constexpr auto kLookForRoomTime = 20ms;  // between looks for memory that a request waits for
constexpr auto kTrimTime = 2ms;          // for processes to return what they do not use, before objects go to disk
constexpr auto kKeepTime = 30s;          // before processes are asked to return slabs that they do not use

}  // namespace

MemoryRequests::MemoryRequests(async::Executor& executor, Parts parts, std::function<void(TimePoint when)> look_at)
    : executor_{executor}, parts_{std::move(parts)}, look_at_{std::move(look_at)} {}

void MemoryRequests::lease(Asker process, std::uint64_t slot_bytes) {
  add({.process = std::move(process)}, slot_bytes);
  serve();
}

void MemoryRequests::bring(Asker process, const Location& object) {
  add({.process = std::move(process)}, object);
  serve();
}

void MemoryRequests::bring_for_node(std::uint32_t table, const Location& object, Brought then) {
  add({.process = {.peer = nullptr, .table = table}, .node = std::move(then)}, object);
  executor_.post([this] { serve(); });
}

bool MemoryRequests::bring_ahead(const Place& place) {
  if (!waiting_.empty() || returning_.contains(place)) return false;
  const auto body = parts_.store->book.begin_return(place);
  if (!body) return false;
  returning_.try_emplace(place);
  bring_back(*body, ImportedObjects::Urgency::kAhead);
  return true;
}

void MemoryRequests::add(Requester requester, std::variant<std::uint64_t, Location> what) {
  waiting_.push_back({std::move(requester), what, executor_.now() + kFullTime});
}

// ---- Answers

bool MemoryRequests::is_there(const Requester& requester) const {
  return requester.node || parts_.processes.has(requester.process);
}

void MemoryRequests::answer(Requester& requester, const wire::Message& answer) {
  if (!requester.node) return parts_.processes.answer(requester.process, answer);
  requester.node({});
}

void MemoryRequests::answer(Requester& requester, Error error) {
  if (!requester.node) return parts_.processes.answer(requester.process, std::move(error));
  requester.node(std::move(error));
}

void MemoryRequests::serve() {
  while (!waiting_.empty() && (!is_there(waiting_.front().requester) || serve(waiting_.front()))) {
    waiting_.pop_front();
  }
  if (waiting_.empty()) return parts_.spilling.spill_early();
  make_room();
  look_at_(executor_.now() + kLookForRoomTime);
}

bool MemoryRequests::serve(Waiting& waiting) {
  return std::visit([&](const auto& what) { return serve(waiting, what); }, waiting.what);
}

bool MemoryRequests::serve(Waiting& waiting, std::uint64_t slot_bytes) {
  NodeStore& store = *parts_.store;
  const std::uint32_t table = waiting.requester.process.table;
  auto slab = store.book.lease(table, slot_bytes);
  if (slab) {
    auto allocated = store.provide_slots(*slab);
    if (!allocated) {
      store.book.give_back(table, slab->first_slot);
      slab = std::move(allocated).error();
    }
  }
  if (!slab) return refuse(waiting, std::move(slab).error());
  failpoint(failpoints::kSlabLent);
  trim_later();
  answer(waiting.requester, wire::SlabLeased{slab->offset, slab->slot_bytes, slab->first_slot, slab->slots});
  return true;
}

bool MemoryRequests::serve(Waiting& waiting, const Location& location) {
  NodeStore& store = *parts_.store;
  parts_.imports.is_kept(waiting.requester.process.table, location.place);
  if (!store.ledger.has(location)) {
    answer(waiting.requester, object_store::lost(location, !store.book.has_process(location.owner)));
    return true;
  }
  if (const auto others = returning_.find(location.place); others != returning_.end()) {
    others->second.push_back(std::move(waiting.requester));
    parts_.imports.hurry(location.place);
    return true;
  }
  if (store.ledger.word_of(location.place.slot).state != object_store::SlotState::kOut) {
    answer(waiting.requester, wire::Done{});
    return true;
  }
  const auto body = store.book.begin_return(location.place);
  // kNotFound: the object is just leaving memory, and Spilling has yet to be told.
  if (!body && body.error().code() == ErrorCode::kNotFound) return false;
  if (!body) return refuse(waiting, body.error());
  returning_[location.place].push_back(std::move(waiting.requester));
  bring_back(*body, ImportedObjects::Urgency::kWaitedFor);
  return true;
}

// A request that memory is too short for is refused only once its time is over, or if it can never fit.
bool MemoryRequests::refuse(Waiting& waiting, Error error) {
  const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting.what);
  const bool too_large = slot_bytes != nullptr && *slot_bytes > parts_.store->book.capacity().bytes();
  if (error.code() == ErrorCode::kExhausted && executor_.now() < waiting.until && !too_large) return false;
  const std::optional<Error>& trouble = parts_.spilling.trouble();
  if (error.code() == ErrorCode::kExhausted && !too_large && trouble) {
    error = Error{error.code(), error.message() + "; and objects cannot go to disk: " + trouble->message(),
                  trouble->remedy()};
  }
  answer(waiting.requester, std::move(error));
  return true;
}

// ---- Memory

std::uint64_t MemoryRequests::memory_for(const Waiting& waiting) const {
  if (const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting.what)) {
    return *slot_bytes * object_store::slots_of_slab(*slot_bytes);
  }
  const Location& object = std::get<Location>(waiting.what);
  return object_store::slot_bytes_for(parts_.store->ledger.slot(object.place.slot).size.load());
}

// Makes room for the first request that waits. The cheapest way comes first: free memory, then memory that processes do
// not use, then objects that go to disk.
void MemoryRequests::make_room() {
  const auto coming = [&] { return parts_.idle.releasing_bytes() + parts_.spilling.leaving_bytes(); };
  const std::uint64_t bytes = memory_for(waiting_.front());
  if (coming() >= bytes) return;
  if (parts_.store->book.idle_bytes() != 0) {
    parts_.idle.release(bytes - coming());
    if (coming() >= bytes) return;
  }
  if (executor_.now() >= trim_again_) {
    trim_again_ = executor_.now() + kLookForRoomTime;
    parts_.processes.ask_to_trim();
    return look_at_(executor_.now() + kTrimTime);
  }
  parts_.spilling.spill(bytes - coming());
}

void MemoryRequests::progress() {
  for (Waiting& waiting : waiting_) waiting.until = executor_.now() + kFullTime;
  parts_.store->book.reclaim();
  serve();
}

void MemoryRequests::trim_later() {
  if (std::exchange(trims_later_, true)) return;
  executor_.run_at(executor_.now() + kKeepTime, [this] {
    trims_later_ = false;
    parts_.processes.ask_to_trim();
  });
}

// ---- Objects that come back

void MemoryRequests::bring_back(const Body& body, ImportedObjects::Urgency urgency) {
  auto done = [this, body](const Result<void>& read) { has_returned(body, read); };
  if (parts_.spilling.on_disk(body.location.place)) {
    parts_.spilling.read_back(body, std::move(done));
  } else {
    parts_.imports.bring(body, urgency, std::move(done));
  }
}

void MemoryRequests::has_returned(const Body& body, const Result<void>& read) {
  const Place place = body.location.place;
  auto requesters = returning_.extract(place);
  if (read) {
    parts_.store->ledger.note_provided(place.slot, body.slot_bytes);
    failpoint(failpoints::kObjectReturned);
    parts_.store->ledger.note_back(place);
  } else {
    parts_.store->book.return_failed(place);
  }
  for (Requester& requester : requesters.mapped()) {
    if (read) {
      answer(requester, wire::Done{});
    } else if (read.error().code() == ErrorCode::kCorrupt) {
      answer(requester, Error{ErrorCode::kObjectLost,
                              "object " + to_string(body.location.id) + " is gone: " + read.error().message(),
                              "Create the object again, and check that disk."});
    } else {
      answer(requester, read.error());
    }
  }
  progress();
}

}  // namespace pharos::node
