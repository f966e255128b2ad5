#include "store_service.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/base/failpoint.hpp>
#include <pharos/base/log.hpp>
#include <pharos/object_store/checksum.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Ledger;
using object_store::Mapping;
using object_store::SharedFile;
using object_store::SpillFile;

constexpr std::uint32_t kTables = 1024;       // processes that use the store at once
constexpr std::uint32_t kPinsAtFirst = 4088;  // of a table; its process gets memory for more
constexpr std::size_t kPartPieces = 4;        // of an object that several threads write or read
constexpr std::size_t kPartsMax = 8;
constexpr std::size_t kListedMax = 1000;  // objects, for people
constexpr auto kFullTime = 1s;
constexpr auto kLookTime = 20ms;  // between looks for memory that somebody waits for
constexpr auto kTrimTime = 2ms;   // to hear what processes give back, before objects go to disk
constexpr auto kReaderTime = 1s;  // between looks for what only others keep
constexpr auto kKeepTime = 30s;   // before processes are asked for what they have leased and do not use
constexpr auto kClaimTime = 5s;   // to hear of results whose maker has died
constexpr auto kIdleTime = 5s;    // before memory that is free goes back to the system
constexpr auto kDiskTime = 1s;    // after an error of the disk

// Of the capacity, in percent: above, objects go to disk until it is less than the second.
constexpr std::uint64_t kSpillAbove = 80;
constexpr std::uint64_t kSpillUntil = 75;

// Addresses for objects that are out on disk, and cost nothing: a multiple of the capacity.
constexpr std::uint64_t kAddressesOverCapacity = 16;
constexpr std::uint64_t kAddressesMin = std::uint64_t{64} << 30;

// As many as this machine's processes may have.
ByteCount addresses_for(ByteCount capacity) {
  std::uint64_t bytes = std::max(capacity.bytes() * kAddressesOverCapacity, kAddressesMin);
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur / 4);
  }
  return std::max(object_store::whole_slab_units(ByteCount{bytes}), capacity);
}

Fd copy_of(int fd) {
  return Fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

}  // namespace

struct StoreService::Memory {
  SharedFile ledger_file;
  Mapping ledger_memory;
  SharedFile objects;
  Ledger ledger;
  object_store::Lender lender;
  std::unique_ptr<SpillFile> disk = nullptr;  // made when it is first needed
};

StoreService::StoreService(async::Executor& executor, Host& host, Settings settings)
    : executor_{executor}, host_{host}, settings_{std::move(settings)} {}

StoreService::~StoreService() = default;

bool StoreService::on_message(const std::shared_ptr<net::Peer>& from, CallerId caller, const net::Parcel& parcel,
                              std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::OpenStore>(parcel.message) && request) {
    std::vector<Fd> descriptors;
    auto opened = open(from, caller, descriptors);
    if (opened) {
      from->respond(*request, *opened, std::move(descriptors));
    } else {
      from->respond(*request, std::move(opened).error().with("opening the object store"));
    }
  } else if (const auto* const slab = std::get_if<wire::LeaseSlab>(&parcel.message); slab != nullptr && request) {
    ask(from, slab->slot_bytes, *request);
  } else if (const auto* const m = std::get_if<wire::BringObject>(&parcel.message); m != nullptr && request) {
    ask(from, Location{{m->maker, m->number}, {m->slot, m->generation}, m->owner}, *request);
  } else if (const auto* const returned = std::get_if<wire::ReturnSlab>(&parcel.message)) {
    const auto table = table_of(*from);
    if (!table) return true;
    memory_->lender.give_back(*table, returned->first_slot);
    look_again();
  } else {
    return false;
  }
  return true;
}

std::string StoreService::leftovers() const {
  if (memory_ == nullptr) return "";
  const object_store::Lender::Census census = memory_->lender.census();
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "object store: " + std::string{what} + ": " + std::to_string(n) + '\n';
  };
  count("processes", processes_.size() + census.processes);
  count("slabs", census.slabs);
  count("objects", census.objects);
  count("objects on disk", on_disk_.size());
  count("requests", waiting_.size());
  return left;
}

wire::InspectedStore StoreService::inspect() const {
  wire::InspectedStore store;
  if (memory_ == nullptr) return store;
  store.capacity = memory_->lender.capacity().bytes();
  store.used = memory_->lender.lent_memory();
  store.idle = memory_->lender.idle_bytes();
  store.on_disk = memory_->disk == nullptr ? 0 : memory_->disk->bytes();
  auto all = memory_->lender.look();
  store.objects = all.size();
  const std::size_t listed = std::min(all.size(), kListedMax);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(listed), all.end(),
                    [](const auto& a, const auto& b) { return a.size > b.size; });
  all.resize(listed);
  for (auto& each : all) {
    wire::InspectedObject object{.maker = each.id.maker,
                                 .number = each.id.number,
                                 .size = each.size,
                                 .label = std::move(each.label),
                                 .sealed = each.state != object_store::SlotState::kWriting,
                                 .on_disk = each.state == object_store::SlotState::kOut};
    if (each.holder) object.uses.push_back({.process = each.holder, .holds = true});
    for (const CallerId process : each.kept_by) object.uses.push_back({.process = process});
    for (const CallerId process : each.read_by) object.uses.push_back({.process = process, .reads = true});
    store.largest.push_back(std::move(object));
  }
  for (const auto& [table, process] : processes_) {
    store.processes.push_back({.caller = memory_->lender.process_of(table)});
  }
  return store;
}

template <class Work, class Done>
void StoreService::run_aside(Work work, Done done) {
  // The work may outlast this, but not the memory that it needs.
  auto result = std::make_shared<std::optional<decltype(work(*memory_))>>();
  host_.run_aside([memory = memory_, work = std::move(work), result]() mutable { result->emplace(work(*memory)); },
                  [memory = std::weak_ptr<Memory>{memory_}, done = std::move(done), result]() mutable {
                    // The last one that has it is this service.
                    if (memory.lock() != nullptr) done(std::move(**result));
                  });
}

// So that both threads have something to do.
template <class Work, class Done>
void StoreService::run_in_parts(std::uint64_t size, Work work, Done done) {
  const std::size_t pieces = object_store::pieces_of(size);
  const std::size_t parts = std::clamp<std::size_t>(pieces / kPartPieces, 1, kPartsMax);
  struct State {
    std::size_t left;
    Result<void> result;
    Done done;
  };
  const auto state = std::make_shared<State>(State{parts, {}, std::move(done)});
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = pieces * part / parts;
    const std::size_t count = pieces * (part + 1) / parts - first;
    run_aside([work, first, count](Memory& memory) -> Result<void> { return work(memory, first, count); },
              [state](Result<void> result) {
                if (state->result.ok()) state->result = std::move(result);
                if (--state->left == 0) state->done(std::move(state->result));
              });
  }
}

Result<void> StoreService::set_up() {
  const ByteCount capacity = settings_.capacity == ByteCount{} ? object_store::default_capacity() : settings_.capacity;
  const ByteCount addresses = addresses_for(capacity);
  const auto slots = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(addresses.bytes() / object_store::kSlotBytesMin, std::uint64_t{1} << 31));
  const ByteCount ledger_bytes{Ledger::bytes_for(slots, kTables)};
  PHAROS_TRY(SharedFile ledger_file, SharedFile::make("pharos-ledger", ledger_bytes));
  PHAROS_TRY(SharedFile objects, SharedFile::make("pharos-objects", addresses));
  PHAROS_TRY(Mapping ledger_memory,
             Mapping::make(ledger_file, 0, ledger_bytes.bytes(), Mapping::Access::kReadAndWrite));
  PHAROS_TRY_VOID(ledger_file.allocate(0, 4096));
  const Ledger ledger = Ledger::format(ledger_memory.memory(), slots, kTables);
  memory_ = std::make_shared<Memory>(Memory{std::move(ledger_file), std::move(ledger_memory), std::move(objects),
                                            ledger, object_store::Lender{ledger, capacity, addresses}});
  return {};
}

Result<wire::StoreOpened> StoreService::open(const std::shared_ptr<net::Peer>& peer, CallerId caller,
                                             std::vector<Fd>& descriptors) {
  if (memory_ == nullptr) PHAROS_TRY_VOID(set_up());
  PHAROS_TRY(const std::uint32_t table, memory_->lender.open(caller));
  const auto stretch = memory_->ledger.stretch_of_pins(table, kPinsAtFirst);
  const auto allocated = memory_->ledger_file.allocate(stretch.begin, stretch.bytes);
  auto life = allocated ? host_.make_life([this, table] { process_ended(table); }) : allocated.error();
  if (!life) {
    static_cast<void>(memory_->lender.process_ended(table));
    return std::move(life).error();
  }
  descriptors.push_back(copy_of(memory_->ledger_file.fd()));
  descriptors.push_back(copy_of(memory_->objects.fd()));
  descriptors.push_back(std::move(life->for_process));
  processes_.emplace(table, Process{peer, std::move(life->watch)});
  failpoint(Failpoint::kStoreOpened);
  return wire::StoreOpened{table};
}

std::optional<std::uint32_t> StoreService::table_of(const net::Peer& peer) const {
  for (const auto& [table, process] : processes_) {
    if (process.peer.get() == &peer) return table;
  }
  return std::nullopt;
}

void StoreService::process_ended(std::uint32_t table) {
  const auto process = processes_.extract(table);
  if (process.empty()) return;
  auto unclaimed = memory_->lender.process_ended(table);
  failpoint(Failpoint::kProcessGone);
  look_again();
  if (unclaimed.empty()) return;
  executor_.run_at(executor_.now() + kClaimTime, [this, unclaimed = std::move(unclaimed)] {
    memory_->lender.end_unclaimed(unclaimed);
    look_again();
  });
}

// ---- Requests

void StoreService::ask(const std::shared_ptr<net::Peer>& from, std::variant<std::uint64_t, Location> what,
                       std::uint64_t request) {
  const auto table = table_of(*from);
  if (!table) {
    from->respond(request, Error{ErrorCode::kFailedPrecondition, "this process has not opened the object store"});
    return;
  }
  waiting_.push_back({{*table, request}, what, executor_.now() + kFullTime});
  serve_waiting();
}

void StoreService::answer(const Asker& asker, const wire::Message& answer) {
  const auto process = processes_.find(asker.table);
  if (process != processes_.end()) process->second.peer->respond(asker.request, answer);
}

void StoreService::answer(const Asker& asker, Error error) {
  const auto process = processes_.find(asker.table);
  if (process != processes_.end()) process->second.peer->respond(asker.request, std::move(error));
}

// In their order: one that needs much is not passed by those that need little.
void StoreService::serve_waiting() {
  while (!waiting_.empty() && (!processes_.contains(waiting_.front().asker.table) || serve(waiting_.front()))) {
    waiting_.pop_front();
  }
  if (waiting_.empty()) {
    if (memory_ != nullptr) spill_early();
    return;
  }
  make_room();
  look_again_at(executor_.now() + kLookTime);
}

bool StoreService::serve(const Waiting& waiting) {
  return std::visit([&](const auto& what) { return serve(waiting, what); }, waiting.what);
}

bool StoreService::serve(const Waiting& waiting, std::uint64_t slot_bytes) {
  auto slab = memory_->lender.lease(waiting.asker.table, slot_bytes);
  if (slab) {
    const auto slots = memory_->ledger.stretch_of_slots(slab->first_slot, slab->slots);
    const auto labels = memory_->ledger.stretch_of_labels(slab->first_slot, slab->slots);
    auto allocated = memory_->ledger_file.allocate(slots.begin, slots.bytes);
    if (allocated) allocated = memory_->ledger_file.allocate(labels.begin, labels.bytes);
    if (!allocated) {
      memory_->lender.give_back(waiting.asker.table, slab->first_slot);
      slab = std::move(allocated).error();
    }
  }
  if (!slab) return refuse(waiting, std::move(slab).error());
  failpoint(Failpoint::kSlabLent);
  trim_later();
  answer(waiting.asker, wire::SlabLeased{slab->offset, slab->slot_bytes, slab->first_slot, slab->slots});
  return true;
}

bool StoreService::serve(const Waiting& waiting, const Location& location) {
  const Ledger& ledger = memory_->ledger;
  if (!ledger.has(location)) {
    answer(waiting.asker, object_store::lost(location, !memory_->lender.has_process(location.owner)));
    return true;
  }
  if (const auto others = returning_.find(location.place); others != returning_.end()) {
    others->second.push_back(waiting.asker);
    return true;
  }
  if (ledger.word_of(location.place.slot).state != object_store::SlotState::kOut) {
    answer(waiting.asker, wire::Done{});
    return true;
  }
  const auto body = memory_->lender.begin_return(location.place);
  if (!body && body.error().code() == ErrorCode::kNotFound) return false;  // it left just now, and is being noted
  if (!body) return refuse(waiting, body.error());
  returning_[location.place].push_back(waiting.asker);
  bring_back(*body);
  return true;
}

// Once its time is over.
bool StoreService::refuse(const Waiting& waiting, Error error) {
  const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting.what);
  const bool too_large = slot_bytes != nullptr && *slot_bytes > memory_->lender.capacity().bytes();
  if (error.code() == ErrorCode::kExhausted && executor_.now() < waiting.until && !too_large) return false;
  if (error.code() == ErrorCode::kExhausted && !too_large && spill_error_) {
    error = Error{error.code(), error.message() + "; and objects cannot go to disk: " + spill_error_->message(),
                  spill_error_->remedy()};
  }
  answer(waiting.asker, std::move(error));
  return true;
}

// ---- Memory

// For the first of those that wait: what costs least first.
void StoreService::make_room() {
  const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting_.front().what);
  const auto size_of = [&](const Location& object) { return memory_->ledger.slot(object.place.slot).size.load(); };
  const std::uint64_t bytes = slot_bytes != nullptr
                                  ? *slot_bytes * object_store::slots_of_slab(*slot_bytes)
                                  : object_store::slot_bytes_for(size_of(std::get<Location>(waiting_.front().what)));
  std::uint64_t coming = releasing_bytes_ + leaving_bytes_;
  if (coming >= bytes) return;
  if (memory_->lender.idle_bytes() != 0) {
    release(bytes - coming);
    coming = releasing_bytes_ + leaving_bytes_;
    if (coming >= bytes) return;
  }
  if (executor_.now() >= trim_again_) {
    trim_again_ = executor_.now() + kLookTime;
    ask_to_trim();
    return look_again_at(executor_.now() + kTrimTime);
  }
  spill(bytes - coming);
}

void StoreService::ask_to_trim() {
  for (const auto& [table, process] : processes_) process.peer->send(wire::TrimStore{});
}

void StoreService::release(std::uint64_t bytes) {
  for (const auto& idle : memory_->lender.take_idle(bytes)) {
    releasing_bytes_ += idle.memory;
    run_aside(
        [idle](const Memory& memory) {
          memory.objects.release(idle.offset, idle.bytes);
          return true;
        },
        [this, idle](bool) {
          releasing_bytes_ -= idle.memory;
          memory_->lender.released(idle);
          progress();
        });
  }
}

void StoreService::spill_early() {
  const std::uint64_t capacity = memory_->lender.capacity().bytes();
  const std::uint64_t lent = memory_->lender.lent_memory() - std::min(memory_->lender.lent_memory(), leaving_bytes_);
  if (lent <= capacity / 100 * kSpillAbove || executor_.now() < early_again_) return;
  if (!spill(lent - capacity / 100 * kSpillUntil)) early_again_ = executor_.now() + kReaderTime;
}

bool StoreService::spill(std::uint64_t bytes) {
  if (settings_.spill_folder == kNoSpilling || executor_.now() < spill_again_) return false;
  if (memory_->disk == nullptr) {
    auto file = host_.make_spill_file(settings_.spill_folder);
    if (!file) {
      spill_error_ = std::move(file).error();
      spill_again_ = executor_.now() + kDiskTime;
      return false;
    }
    memory_->disk = std::make_unique<SpillFile>(*std::move(file), settings_.spill_folder);
  }
  std::uint64_t leaving = 0;
  for (const Body& body : memory_->lender.choose_leaving(bytes, leaving_)) {
    leaving += body.slot_bytes;
    leaving_bytes_ += body.slot_bytes;
    leaving_.insert(body.location.place);
    if (const auto copy = on_disk_.find(body.location.place); copy != on_disk_.end()) {
      take_out(body, std::make_shared<SpillFile::Kept>(copy->second), {});
      continue;
    }
    auto place = memory_->disk->reserve(body.size);
    if (!place) {
      has_left(body, std::move(place).error());
      continue;
    }
    const auto kept = std::make_shared<SpillFile::Kept>(*std::move(place));
    run_in_parts(
        body.size,
        [body, kept](const Memory& memory, std::size_t first, std::size_t count) -> Result<void> {
          PHAROS_TRY_VOID(memory.disk->write(*kept, first, count, memory.objects, body.offset));
          if (!failpoint(Failpoint::kObjectSpilled)) return {};
          return Error{ErrorCode::kExhausted, "the disk is full, says a failpoint"};
        },
        [this, body, kept](Result<void> written) { take_out(body, kept, std::move(written)); });
  }
  return leaving >= bytes;
}

// An object that is on disk: its memory.
void StoreService::take_out(const Body& body, const std::shared_ptr<SpillFile::Kept>& kept, Result<void> written) {
  run_aside(
      [body, kept, written = std::move(written)](Memory& memory) -> Result<Left> {
        if (!written) {
          memory.disk->drop(*kept);
          return written.error();
        }
        // Or it was called back, or has ended.
        const bool is_out = memory.ledger.note_out(body.location.place);
        if (is_out) {
          failpoint(Failpoint::kObjectOut);
          memory.ledger.note_provided(body.location.place.slot, 0);
          memory.objects.release(body.offset, body.slot_bytes);
          failpoint(Failpoint::kMemoryGone);
        }
        return Left{*kept, is_out};
      },
      [this, body](Result<Left> left) { has_left(body, std::move(left)); });
}

void StoreService::has_left(const Body& body, Result<Left> left) {
  leaving_bytes_ -= body.slot_bytes;
  leaving_.erase(body.location.place);
  if (left) {
    if (executor_.now() >= spill_again_) spill_error_.reset();  // or another failed meanwhile
    if (left->is_out) memory_->lender.left(body.location.place);
    on_disk_.emplace(body.location.place, std::move(left->kept));
    look_again_at(executor_.now() + kReaderTime);
    return progress();
  }
  memory_->ledger.stay(body.location.place);
  log(LogLevel::kWarn, "an object could not go to disk", {kv("error", left.error())});
  spill_error_ = std::move(left).error();
  spill_again_ = executor_.now() + kDiskTime;
  // Copies of what is in memory are worth less than room.
  end_outside();
  const std::size_t dropped = drop_copies([&](const Place& place) { return !memory_->lender.is_outside(place); });
  if (dropped != 0) spill_again_ = executor_.now();
  serve_waiting();
}

void StoreService::bring_back(const Body& body) {
  const auto kept = on_disk_.at(body.location.place);
  run_in_parts(
      body.size,
      [body, kept](const Memory& memory, std::size_t first, std::size_t count) -> Result<void> {
        if (failpoint(Failpoint::kObjectReturns)) {
          return Error{ErrorCode::kCorrupt, "the object is damaged, says a failpoint"};
        }
        PHAROS_TRY_VOID(memory.disk->read(kept, first, count, memory.objects, body.offset));
        if (first != 0 || body.slot_bytes == body.size) return {};
        // Whoever leases the slot writes there again, up to its end.
        return memory.objects.allocate(body.offset + body.size, body.slot_bytes - body.size);
      },
      [this, body](const Result<void>& read) { has_returned(body, read); });
}

void StoreService::has_returned(const Body& body, const Result<void>& read) {
  const Place place = body.location.place;
  const auto askers = returning_.extract(place);
  if (read) {
    memory_->ledger.note_provided(place.slot, body.slot_bytes);
    failpoint(Failpoint::kObjectReturned);
    memory_->ledger.note_back(place);  // and its copy on disk is good for the next time
  } else {
    memory_->lender.return_failed(place);
  }
  for (const Asker& asker : askers.mapped()) {
    if (read) {
      answer(asker, wire::Done{});
    } else if (read.error().code() == ErrorCode::kCorrupt) {
      answer(asker, Error{ErrorCode::kObjectLost,
                          "object " + to_string(body.location.id) + " is gone: " + read.error().message(),
                          "Make it again; and look after that disk."});
    } else {
      answer(asker, read.error());
    }
  }
  progress();
}

// On disk, whether they are out or not.
void StoreService::end_outside() {
  memory_->lender.end_outside();
  drop_copies([&](const Place& place) {
    static_cast<void>(memory_->ledger.end(place.slot));
    const object_store::SlotWord word = memory_->ledger.word_of(place.slot);
    return !word.has_object() || word.generation != place.generation;
  });
}

template <class Condition>
std::size_t StoreService::drop_copies(Condition which) {
  std::size_t dropped = 0;
  for (auto each = on_disk_.begin(); each != on_disk_.end();) {
    const Place& place = each->first;
    if (leaving_.contains(place) || returning_.contains(place) || !which(place)) {
      ++each;
      continue;
    }
    run_aside(
        [kept = std::move(each->second)](Memory& memory) {
          memory.disk->drop(kept);
          return true;
        },
        [](bool) {});
    each = on_disk_.erase(each);
    ++dropped;
  }
  return dropped;
}

// There is more room, or the disk works: who waits has more time.
void StoreService::progress() {
  for (Waiting& waiting : waiting_) waiting.until = executor_.now() + kFullTime;
  memory_->lender.reclaim();
  serve_waiting();
}

// ---- Time

void StoreService::look_again_at(TimePoint when) {
  if (when >= next_look_) return;
  next_look_ = when;
  executor_.run_at(when, [this, when] {
    if (next_look_ != when) return;
    next_look_ = TimePoint::max();
    look_again();
  });
}

void StoreService::look_again() {
  end_outside();
  memory_->lender.reclaim();
  serve_waiting();
  if (memory_->lender.waits_for_readers() || !on_disk_.empty()) {
    look_again_at(executor_.now() + kReaderTime);
  }
  release_idle_later();
}

void StoreService::trim_later() {
  if (std::exchange(trims_later_, true)) return;
  executor_.run_at(executor_.now() + kKeepTime, [this] {
    trims_later_ = false;
    ask_to_trim();
  });
}

void StoreService::release_idle_later() {
  if (memory_->lender.idle_bytes() == 0 || std::exchange(releases_idle_, true)) return;
  executor_.run_at(executor_.now() + kIdleTime, [this] {
    releases_idle_ = false;
    release(memory_->lender.idle_bytes());
  });
}

}  // namespace pharos::node
