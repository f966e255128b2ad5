#include "store/store_service.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/node/failpoints.hpp>
#include <pharos/object_store/checksum.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Ledger;
using object_store::SpillFile;

constexpr std::size_t kPartPieces = 4;  // pieces in each part of an object that several threads write or read
constexpr std::size_t kPartsMax = 8;
constexpr std::size_t kListedMax = 1000;  // objects in a listing for users
constexpr std::size_t kAheadsMax = 64;    // imports that nobody waits for
constexpr auto kFullTime = 1s;
constexpr auto kLookTime = 20ms;  // between looks for memory that a request waits for
constexpr auto kTrimTime = 2ms;   // for processes to return what they do not use, before objects go to disk
constexpr auto kReaderTime = 1s;  // between looks for objects that have ended and of which no process tells
constexpr auto kKeepTime = 30s;   // before processes are asked to return slabs that they do not use
constexpr auto kClaimTime = 5s;   // for heirs to take results whose maker has died
constexpr auto kIdleTime = 5s;    // before free memory goes back to the system
constexpr auto kDiskTime = 1s;    // after an error of the disk, before it is tried again

// Percentages of the capacity: when more than the first is lent, objects go to disk until it is less than the second.
constexpr std::uint64_t kSpillAbove = 80;
constexpr std::uint64_t kSpillUntil = 75;

Error not_opened() {
  return {ErrorCode::kFailedPrecondition, "this process has not opened the object store"};
}

Fd copy_of(int fd) {
  return Fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

}  // namespace

StoreService::StoreService(async::Executor& executor, Host& host, Settings settings, Imports::Find find)
    : executor_{executor}, host_{host}, settings_{std::move(settings)}, find_{std::move(find)}, background_{executor} {}

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
    ask(from, m->object, *request);
  } else if (const auto* const wanted = std::get_if<wire::ImportObject>(&parcel.message)) {
    const auto table = table_of(*from);
    if (table && request) {
      background_.spawn(import(this, {from, *table, *request}, wanted->object));
    } else if (table) {
      import_ahead({from, *table, 0}, wanted->object);
    } else if (request) {
      from->respond(*request, not_opened());
    }
  } else if (const auto* const returned = std::get_if<wire::ReturnSlab>(&parcel.message)) {
    const auto table = table_of(*from);
    if (!table) return true;
    store_->lender.give_back(*table, returned->first_slot);
    look_again();
  } else {
    return false;
  }
  return true;
}

std::string StoreService::leftovers() const {
  if (store_ == nullptr) return "";
  const object_store::Lender::Census census = store_->lender.census();
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "object store: " + std::string{what} + ": " + std::to_string(n) + '\n';
  };
  count("processes", processes_.size() + census.processes - 1 - exports_->tables());
  count("slabs", census.slabs);
  count("objects of other nodes", imports_->size());
  count("objects for other nodes", exports_->claims());
  count("objects", census.objects);
  count("objects on disk", on_disk_.size());
  count("requests", waiting_.size());
  return left;
}

wire::InspectedStore StoreService::inspect() const {
  wire::InspectedStore store;
  if (store_ == nullptr) return store;
  store.capacity = store_->lender.capacity().bytes();
  store.used = store_->lender.lent_memory();
  store.idle = store_->lender.idle_bytes();
  store.on_disk = store_->disk == nullptr ? 0 : store_->disk->bytes();
  auto all = store_->lender.look();
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
                                 .out = each.state == object_store::SlotState::kOut,
                                 .copied = imports_->find(each.id).has_value()};
    if (each.holder) object.uses.push_back({.process = each.holder, .holds = true});
    for (const CallerId process : each.kept_by) object.uses.push_back({.process = process});
    for (const CallerId process : each.read_by) object.uses.push_back({.process = process, .reads = true});
    store.largest.push_back(std::move(object));
  }
  for (const auto& [table, process] : processes_) {
    store.processes.push_back({.caller = store_->lender.process_of(table)});
  }
  for (const NodeId node : exports_->neighbours()) {
    store.processes.push_back({.caller = CallerId{node.value()}, .label = "node " + to_string(node)});
  }
  store.processes.push_back({.caller = CallerId{settings_.node.value()}, .label = "this node"});
  store.processes.push_back({.caller = CallerId{~settings_.node.value()}, .label = "this node"});
  return store;
}

template <class Work, class Done>
void StoreService::run_aside(Work work, Done done) {
  // The work may outlast this object, so it shares the store.
  auto result = std::make_shared<std::optional<decltype(work(*store_))>>();
  host_.run_aside([store = store_, work = std::move(work), result]() mutable { result->emplace(work(*store)); },
                  [life = std::weak_ptr<void>{life_}, done = std::move(done), result]() mutable {
                    if (!life.expired()) done(std::move(**result));
                  });
}

// An object is split into parts so that all threads of the pool have work.
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
    run_aside([work, first, count](NodeStore& store) -> Result<void> { return work(store, first, count); },
              [state](Result<void> result) {
                if (state->result.ok()) state->result = std::move(result);
                if (--state->left == 0) state->done(std::move(state->result));
              });
  }
}

Result<void> StoreService::set_up() {
  if (store_ != nullptr) return {};
  PHAROS_TRY(auto store, NodeStore::make(settings_.capacity));
  PHAROS_TRY(NodePins kept, NodePins::open(store, CallerId{settings_.node.value()}));
  PHAROS_TRY(NodePins read, NodePins::open(store, CallerId{~settings_.node.value()}));
  own_table_ = read.table();
  store_ = std::move(store);
  imports_ = std::make_unique<Imports>(executor_, host_, settings_.node, store_, std::move(kept), find_);
  exports_ = std::make_unique<Exports>(
      executor_, host_, settings_.node, store_, std::move(read), *imports_,
      [this](const Location& here, async::UniqueFunction<void(Result<void>)> then) { bring(here, std::move(then)); });
  return {};
}

void StoreService::close() {
  background_.cancel();
  if (store_ == nullptr) return;
  imports_->close();
  exports_->close();
}

Result<wire::StoreOpened> StoreService::open(const std::shared_ptr<net::Peer>& peer, CallerId caller,
                                             std::vector<Fd>& descriptors) {
  PHAROS_TRY_VOID(set_up());
  PHAROS_TRY(const std::uint32_t table, store_->open(caller));
  auto life = host_.make_life([this, table] { process_ended(table); });
  if (!life) {
    static_cast<void>(store_->lender.process_ended(table));
    return std::move(life).error();
  }
  descriptors.push_back(copy_of(store_->ledger_file.fd()));
  descriptors.push_back(copy_of(store_->objects.fd()));
  descriptors.push_back(std::move(life->for_process));
  processes_.emplace(table, Process{peer, std::move(life->watch)});
  failpoint(failpoints::kStoreOpened);
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
  auto unclaimed = store_->lender.process_ended(table);
  failpoint(failpoints::kProcessGone);
  imports_->process_ended(table);
  look_again();
  if (unclaimed.empty()) return;
  executor_.run_at(executor_.now() + kClaimTime, [this, unclaimed = std::move(unclaimed)] {
    store_->lender.end_unclaimed(unclaimed);
    look_again();
  });
}

// ---- Requests

void StoreService::ask(const std::shared_ptr<net::Peer>& from, std::variant<std::uint64_t, Location> what,
                       std::uint64_t request) {
  const auto table = table_of(*from);
  if (!table) {
    from->respond(request, not_opened());
    return;
  }
  waiting_.push_back({{from, *table, request}, what, executor_.now() + kFullTime});
  serve_waiting();
}

// ---- Other nodes

void StoreService::add_neighbour(NodeId node, Fd socket) {
  if (set_up()) exports_->add_neighbour(node, std::move(socket));
}

void StoreService::offer(const object_store::Wish& wish, Host::TakeOffer then) {
  if (auto there = set_up(); !there) return then(std::move(there).error());
  exports_->offer(wish, std::move(then));
}

// Brings back an object that this node itself has pinned, in order to send it to another node.
void StoreService::bring(const Location& here, async::UniqueFunction<void(Result<void>)> then) {
  const std::uint64_t request = ++last_request_;
  own_requests_.emplace(request, std::move(then));
  Asker self;
  self.table = own_table_;
  self.request = request;
  waiting_.push_back({std::move(self), here, executor_.now() + kFullTime});
  executor_.post([this] { serve_waiting(); });
}

async::Async<void> StoreService::import(StoreService* self, Asker asker, Location object) {
  auto here = co_await Imports::import(self->imports_.get(), asker.table, object, Imports::kKeepTime);
  self->forget_if_ended(asker);
  if (here) {
    self->answer(asker, wire::ObjectImported{*here});
  } else {
    self->answer(asker, std::move(here).error());
  }
  self->look_again_at(self->executor_.now() + kReaderTime);
}

// More than kAheadsMax are ignored: an import ahead is only a hint.
void StoreService::import_ahead(const Asker& asker, const Location& object) {
  if (aheads_ < kAheadsMax) background_.spawn(import_ahead(this, asker, object));
}

// Pulls an object before it is needed, but only while no request waits for memory.
async::Async<void> StoreService::import_ahead(StoreService* self, Asker asker, Location object) {
  ++self->aheads_;
  const auto here = co_await Imports::import(self->imports_.get(), asker.table, object, Imports::kAheadTime);
  --self->aheads_;
  self->forget_if_ended(asker);
  if (!here || !self->waiting_.empty() || self->returning_.contains(here->place)) co_return;
  const auto returns = self->store_->lender.begin_return(here->place);
  if (!returns) co_return;
  const Body body = *returns;
  self->returning_.try_emplace(here->place);
  self->bring_back(body, Imports::Urgency::kAhead);
  self->look_again_at(self->executor_.now() + kReaderTime);
}

// ---- Answers

bool StoreService::is_there(const Asker& asker) const {
  if (asker.peer == nullptr) return true;
  const auto process = processes_.find(asker.table);
  return process != processes_.end() && process->second.peer == asker.peer;
}

// If the asker has ended during an import, the import may have kept the object for it just after that. So this lets go
// of it.
void StoreService::forget_if_ended(const Asker& asker) {
  if (!processes_.contains(asker.table)) imports_->process_ended(asker.table);
}

void StoreService::answer(const Asker& asker, const wire::Message& answer) {
  if (asker.peer == nullptr) {
    own_requests_.extract(asker.request).mapped()({});
  } else if (is_there(asker)) {
    asker.peer->respond(asker.request, answer);
  }
}

void StoreService::answer(const Asker& asker, Error error) {
  if (asker.peer == nullptr) {
    own_requests_.extract(asker.request).mapped()(std::move(error));
  } else if (is_there(asker)) {
    asker.peer->respond(asker.request, std::move(error));
  }
}

// Requests are served in their order, so that large ones are not passed by small ones for ever.
void StoreService::serve_waiting() {
  while (!waiting_.empty() && (!is_there(waiting_.front().asker) || serve(waiting_.front()))) {
    waiting_.pop_front();
  }
  if (waiting_.empty()) {
    if (store_ != nullptr) spill_early();
    return;
  }
  make_room();
  look_again_at(executor_.now() + kLookTime);
}

bool StoreService::serve(const Waiting& waiting) {
  return std::visit([&](const auto& what) { return serve(waiting, what); }, waiting.what);
}

bool StoreService::serve(const Waiting& waiting, std::uint64_t slot_bytes) {
  auto slab = store_->lender.lease(waiting.asker.table, slot_bytes);
  if (slab) {
    auto allocated = store_->provide_slots(slab->first_slot, slab->slots);
    if (!allocated) {
      store_->lender.give_back(waiting.asker.table, slab->first_slot);
      slab = std::move(allocated).error();
    }
  }
  if (!slab) return refuse(waiting, std::move(slab).error());
  failpoint(failpoints::kSlabLent);
  trim_later();
  answer(waiting.asker, wire::SlabLeased{slab->offset, slab->slot_bytes, slab->first_slot, slab->slots});
  return true;
}

bool StoreService::serve(const Waiting& waiting, const Location& location) {
  const Ledger& ledger = store_->ledger;
  imports_->is_kept(waiting.asker.table, location.place);
  if (!ledger.has(location)) {
    answer(waiting.asker, object_store::lost(location, !store_->lender.has_process(location.owner)));
    return true;
  }
  if (const auto others = returning_.find(location.place); others != returning_.end()) {
    others->second.push_back(waiting.asker);
    imports_->hurry(location.place);
    return true;
  }
  if (ledger.word_of(location.place.slot).state != object_store::SlotState::kOut) {
    answer(waiting.asker, wire::Done{});
    return true;
  }
  const auto body = store_->lender.begin_return(location.place);
  if (!body && body.error().code() == ErrorCode::kNotFound) return false;  // has_left() is still to come
  if (!body) return refuse(waiting, body.error());
  returning_[location.place].push_back(waiting.asker);
  bring_back(*body, Imports::Urgency::kWaitedFor);
  return true;
}

// A request that memory is too short for is refused only once its time is over, or if it can never fit.
bool StoreService::refuse(const Waiting& waiting, Error error) {
  const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting.what);
  const bool too_large = slot_bytes != nullptr && *slot_bytes > store_->lender.capacity().bytes();
  if (error.code() == ErrorCode::kExhausted && executor_.now() < waiting.until && !too_large) return false;
  if (error.code() == ErrorCode::kExhausted && !too_large && spill_error_) {
    error = Error{error.code(), error.message() + "; and objects cannot go to disk: " + spill_error_->message(),
                  spill_error_->remedy()};
  }
  answer(waiting.asker, std::move(error));
  return true;
}

// ---- Memory

// Makes room for the first request that waits. The cheapest way comes first: free memory, then memory that processes do
// not use, then objects that go to disk.
void StoreService::make_room() {
  const auto* const slot_bytes = std::get_if<std::uint64_t>(&waiting_.front().what);
  const auto size_of = [&](const Location& object) { return store_->ledger.slot(object.place.slot).size.load(); };
  const std::uint64_t bytes = slot_bytes != nullptr
                                  ? *slot_bytes * object_store::slots_of_slab(*slot_bytes)
                                  : object_store::slot_bytes_for(size_of(std::get<Location>(waiting_.front().what)));
  std::uint64_t coming = releasing_bytes_ + leaving_bytes_;
  if (coming >= bytes) return;
  if (store_->lender.idle_bytes() != 0) {
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
  for (const auto& idle : store_->lender.take_idle(bytes)) {
    releasing_bytes_ += idle.memory;
    run_aside(
        [idle](const NodeStore& store) {
          store.objects.release(idle.offset, idle.bytes);
          return true;
        },
        [this, idle](bool) {
          releasing_bytes_ -= idle.memory;
          store_->lender.released(idle);
          progress();
        });
  }
}

void StoreService::spill_early() {
  const std::uint64_t capacity = store_->lender.capacity().bytes();
  const std::uint64_t lent = store_->lender.lent_memory() - std::min(store_->lender.lent_memory(), leaving_bytes_);
  if (lent <= capacity / 100 * kSpillAbove || executor_.now() < early_again_) return;
  if (!spill(lent - capacity / 100 * kSpillUntil)) early_again_ = executor_.now() + kReaderTime;
}

bool StoreService::spill(std::uint64_t bytes) {
  if (settings_.spill_folder == kNoSpilling || executor_.now() < spill_again_) return false;
  if (store_->disk == nullptr) {
    auto file = host_.make_spill_file(settings_.spill_folder);
    if (!file) {
      spill_error_ = std::move(file).error();
      spill_again_ = executor_.now() + kDiskTime;
      return false;
    }
    store_->disk = std::make_unique<SpillFile>(*std::move(file), settings_.spill_folder);
  }
  std::uint64_t leaving = 0;
  for (const Body& body : store_->lender.choose_leaving(bytes, leaving_)) {
    leaving += body.slot_bytes;
    leaving_bytes_ += body.slot_bytes;
    leaving_.insert(body.location.place);
    if (const auto copy = on_disk_.find(body.location.place); copy != on_disk_.end()) {
      take_out(body, copy->second, {});
      continue;
    }
    if (imports_->is_elsewhere(body.location.place)) {
      take_out(body, std::nullopt, {});
      continue;
    }
    auto place = store_->disk->reserve(body.size);
    if (!place) {
      has_left(body, std::move(place).error());
      continue;
    }
    const auto kept = std::make_shared<SpillFile::Kept>(*std::move(place));
    run_in_parts(
        body.size,
        [body, kept](const NodeStore& store, std::size_t first, std::size_t count) -> Result<void> {
          PHAROS_TRY_VOID(store.disk->write(*kept, first, count, store.objects, body.offset));
          if (!failpoint(failpoints::kObjectSpilled)) return {};
          return Error{ErrorCode::kExhausted, "the disk is full, says a failpoint"};
        },
        [this, body, kept](Result<void> written) { take_out(body, *kept, std::move(written)); });
  }
  return leaving >= bytes;
}

// Takes the memory of an object that is on disk or at another node.
void StoreService::take_out(const Body& body, const std::optional<SpillFile::Kept>& kept, Result<void> written) {
  run_aside(
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
          store.objects.release(body.offset, body.slot_bytes);
          failpoint(failpoints::kMemoryGone);
        }
        return Left{kept, is_out};
      },
      [this, body](Result<Left> left) { has_left(body, std::move(left)); });
}

void StoreService::has_left(const Body& body, Result<Left> left) {
  leaving_bytes_ -= body.slot_bytes;
  leaving_.erase(body.location.place);
  if (left) {
    if (executor_.now() >= spill_again_) spill_error_.reset();  // unless another write has failed meanwhile
    if (left->is_out) store_->lender.left(body.location.place);
    if (left->kept) on_disk_.emplace(body.location.place, *std::move(left->kept));
    look_again_at(executor_.now() + kReaderTime);
    return progress();
  }
  store_->ledger.stay(body.location.place);
  log(LogLevel::kWarn, "an object could not go to disk", {kv("error", left.error())});
  spill_error_ = std::move(left).error();
  spill_again_ = executor_.now() + kDiskTime;
  // The disk needs room more than it needs copies of objects that are in memory.
  end_outside();
  const std::size_t dropped = drop_copies([&](const Place& place) { return !store_->lender.is_outside(place); });
  if (dropped != 0) spill_again_ = executor_.now();
  serve_waiting();
}

void StoreService::bring_back(const Body& body, Imports::Urgency urgency) {
  const auto copy = on_disk_.find(body.location.place);
  if (copy == on_disk_.end()) {
    return imports_->bring(body, urgency, [this, body](const Result<void>& pulled) { has_returned(body, pulled); });
  }
  const auto kept = copy->second;
  run_in_parts(
      body.size,
      [body, kept](const NodeStore& store, std::size_t first, std::size_t count) -> Result<void> {
        if (failpoint(failpoints::kObjectReturns)) {
          return Error{ErrorCode::kCorrupt, "the object is damaged, says a failpoint"};
        }
        PHAROS_TRY_VOID(store.disk->read(kept, first, count, store.objects, body.offset));
        if (first != 0 || body.slot_bytes == body.size) return {};
        // The slot is written again up to its end when a process leases it later, so all of it gets storage.
        return store.objects.allocate(body.offset + body.size, body.slot_bytes - body.size);
      },
      [this, body](const Result<void>& read) { has_returned(body, read); });
}

void StoreService::has_returned(const Body& body, const Result<void>& read) {
  const Place place = body.location.place;
  const auto askers = returning_.extract(place);
  if (read) {
    store_->ledger.note_provided(place.slot, body.slot_bytes);
    failpoint(failpoints::kObjectReturned);
    store_->ledger.note_back(place);  // the copy on disk stays for the next time
  } else {
    store_->lender.return_failed(place);
  }
  for (const Asker& asker : askers.mapped()) {
    if (read) {
      answer(asker, wire::Done{});
    } else if (read.error().code() == ErrorCode::kCorrupt) {
      answer(asker, Error{ErrorCode::kObjectLost,
                          "object " + to_string(body.location.id) + " is gone: " + read.error().message(),
                          "Create the object again, and check that disk."});
    } else {
      answer(asker, read.error());
    }
  }
  progress();
}

// Ends objects that no process uses any more, and drops their copies on disk. Also looks at objects in memory that have
// a copy.
void StoreService::end_outside() {
  store_->lender.end_outside();
  drop_copies([&](const Place& place) {
    static_cast<void>(store_->ledger.end(place.slot));
    const object_store::SlotWord word = store_->ledger.word_of(place.slot);
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
        [kept = std::move(each->second)](NodeStore& store) {
          store.disk->drop(kept);
          return true;
        },
        [](bool) {});
    each = on_disk_.erase(each);
    ++dropped;
  }
  return dropped;
}

// There is more room, or the disk works again. So requests that wait get their whole time once more.
void StoreService::progress() {
  for (Waiting& waiting : waiting_) waiting.until = executor_.now() + kFullTime;
  store_->lender.reclaim();
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
  store_->lender.reclaim();
  serve_waiting();
  if (store_ != nullptr) imports_->look();
  if (store_->lender.waits_for_readers() || !on_disk_.empty() || !imports_->empty()) {
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
  if (store_->lender.idle_bytes() == 0 || std::exchange(releases_idle_, true)) return;
  executor_.run_at(executor_.now() + kIdleTime, [this] {
    releases_idle_ = false;
    release(store_->lender.idle_bytes());
  });
}

}  // namespace pharos::node
