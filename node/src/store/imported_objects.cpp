#include "store/imported_objects.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/node/failpoints.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Chunks;
using object_store::PinKind;
using object_store::PullRequest;

constexpr auto kClaimTime = 10s;
constexpr auto kAgainTime = 200ms;  // between attempts
constexpr int kAttempts = 4;        // in a row that bring not a single byte
constexpr auto kSilentMin = 1s;
constexpr auto kSilentTime = 25s;
constexpr std::uint64_t kWarmMin = std::uint64_t{4} << 20;
constexpr int kHopsMax = 4;  // nodes that are asked one after the other, because each names another one

/// Returns whether an attempt shows that the node is cut off rather than gone, and is not to be counted: a node that is
/// gone refuses at once. The head's machine may be cut off from all others for 20 s, and no job loses anything then. A
/// cut between two nodes alone lasts longer, and users have to be told of it.
bool is_silent(TimePoint begun, TimePoint asked, TimePoint now) {
  return now - asked >= kSilentMin && now < begun + kSilentTime;
}

/// The error for a caller that wants the object and will not get it.
Error lost_with_its_node(const ObjectId& id, const Error& why) {
  return {ErrorCode::kObjectLost,
          "object " + to_string(id) + " is on another node and could not be fetched: " + why.message(),
          "Create the object again, and check that node."};
}

}  // namespace

ImportedObjects::ImportedObjects(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store,
                                 NodePins pins, Find find, Bring bring)
    : executor_{executor},
      host_{host},
      self_{self},
      store_{std::move(store)},
      pins_{std::move(pins)},
      find_{find},
      bring_{std::move(bring)},
      links_{executor, host, self, std::move(find), link_events()},
      background_{executor} {}

NodeLinks::Events ImportedObjects::link_events() {
  return {
      .connected = [this](NodeId node, NodeLinks::Link link) { background_.spawn(claim_again(node, std::move(link))); },
      .ended = [this](NodeId node) { background_.spawn(reach_again(node)); },
      .asked = [this](const NodeLinks::Link& link, const wire::Message& message,
                      std::uint64_t request) { return on_asked(link, message, request); }};
}

void ImportedObjects::close() {
  background_.cancel();
  links_.close();
}

// ---- Places for objects of other nodes

// The node that passed the object on may not be the one that has it. Then it names that one, which is asked next.
async::Async<Result<object_store::Location>> ImportedObjects::import(std::uint32_t table, Location object,
                                                                     Duration time) {
  for (int hops = 0; hops < kHopsMax; ++hops) {
    if (object.node == self_) co_return keep_for(table, object, time);
    if (const auto known = imports_.find(object.id); known != imports_.end()) {
      auto kept = keep_for(table, known->second.here, time);
      if (kept || !object_store::is_lost(kept.error())) co_return kept;
    }
    ++claiming_[object.id];
    auto claimed = co_await claim(object);
    if (--claiming_[object.id] == 0) claiming_.erase(object.id);
    if (!claimed) {
      release_if_unused(object);  // the claim may still have been made after the time limit
      co_return std::move(claimed).error();
    }
    if (!claimed->elsewhere.node) co_return take_in(table, object, *claimed, time);
    object = claimed->elsewhere;
  }
  co_return Error{ErrorCode::kUnavailable, "no node says that it has object " + to_string(object.id)};
}

async::Async<Result<wire::ObjectClaimed>> ImportedObjects::claim(Location object) {
  Result<net::Parcel> answer = Error{ErrorCode::kUnavailable, "no node was asked"};
  const TimePoint begun = executor_.now();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt != 0) PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));
    const TimePoint asked = executor_.now();
    auto link = co_await links_.reach(object.node);
    if (!link) {
      answer = std::move(link).error();
      if (answer.error().code() == ErrorCode::kNotFound) break;
      // The head does not say where the node is: it waits for that node, or is away itself.
      const bool head_waits = answer.error().code() == ErrorCode::kDeadlineExceeded;
      const TimePoint now = executor_.now();
      if ((head_waits && now < begun + kAwayTime) || is_silent(begun, asked, now)) attempt = 0;
      continue;
    }
    wire::Message ask = wire::ClaimObject{object};
    answer = co_await (*link)->request(std::move(ask), std::vector<Fd>{},
                                       async::Deadline::after(kClaimTime, executor_.now()));
    if (answer) break;
    const bool no_answer = answer.error().code() == ErrorCode::kDeadlineExceeded;
    if (no_answer) links_.give_up(object.node, **link);  // it may have ended unnoticed
    if (no_answer && is_silent(begun, asked, executor_.now())) attempt = 0;
    if (!no_answer && answer.error().code() != ErrorCode::kUnavailable) break;
  }
  if (!answer) {
    if (object_store::is_lost(answer.error())) co_return std::move(answer).error();
    co_return lost_with_its_node(object.id, answer.error());
  }
  const auto* const claimed = std::get_if<wire::ObjectClaimed>(&answer->message);
  const bool sense = claimed != nullptr && (claimed->elsewhere.node || claimed->size != 0) &&
                     (!claimed->elsewhere.node || claimed->elsewhere.id == object.id);
  if (!sense) co_return Error{ErrorCode::kCorrupt, "another node sent an invalid answer about an object"};
  co_return *claimed;
}

Result<object_store::Location> ImportedObjects::take_in(std::uint32_t table, const Location& origin,
                                                        const wire::ObjectClaimed& claimed, Duration time) {
  if (const auto known = imports_.find(origin.id); known != imports_.end()) {  // another import was faster
    auto kept = keep_for(table, known->second.here, time);
    if (kept || !object_store::is_lost(kept.error())) return kept;
    by_place_.erase(known->second.here.place);
    imports_.erase(known);
  }
  if (claimed.size >= kWarmMin) {  // an object that has ended meanwhile may leave its memory to this one
    store_->book.end_outside();
    store_->book.reclaim();
    look();
  }
  auto place = store_->book.lend_outside(origin.id, claimed.size, claimed.label);
  if (!place) {
    release_if_unused(origin);
    return std::move(place).error();
  }
  const Location here{origin.id, *place, {}, self_};
  imports_.emplace(origin.id, Import{.origin = origin, .here = here});
  by_place_.emplace(*place, origin.id);
  auto kept = keep_for(table, here, time);
  store_->ledger.let_go(*place);
  failpoint(failpoints::kObjectImported);
  return kept;
}

Result<object_store::Location> ImportedObjects::keep_for(std::uint32_t table, const Location& here, Duration time) {
  PHAROS_TRY(const auto pin, pins_.take(PinKind::kKeep, here));
  if (!pin) return object_store::lost(here, !store_->book.has_process(here.owner));
  const std::uint64_t number = ++last_kept_;
  kept_.emplace(number, Kept{here.place, table, pin->number});
  executor_.run_at(executor_.now() + time, [this, number] {
    if (const auto kept = kept_.extract(number); !kept.empty()) pins_.drop(kept.mapped().pin);
  });
  return here;
}

void ImportedObjects::is_kept(std::uint32_t table, const Place& here) {
  std::erase_if(kept_, [&](const auto& entry) {
    const Kept& kept = entry.second;
    if (kept.table != table || kept.here != here) return false;
    pins_.drop(kept.pin);
    return true;
  });
}

void ImportedObjects::process_ended(std::uint32_t table) {
  std::erase_if(kept_, [&](const auto& entry) {
    if (entry.second.table == table) pins_.drop(entry.second.pin);
    return entry.second.table == table;
  });
}

std::optional<object_store::Location> ImportedObjects::find(const ObjectId& id) const {
  const auto found = imports_.find(id);
  return found == imports_.end() ? std::nullopt : std::optional{found->second.here};
}

const object_store::Location* ImportedObjects::origin_of(const Place& here) const {
  const auto found = by_place_.find(here);
  return found == by_place_.end() ? nullptr : &imports_.at(found->second).origin;
}

bool ImportedObjects::is_elsewhere(const Place& here) const {
  const auto found = by_place_.find(here);
  return found != by_place_.end() && imports_.at(found->second).claimed;
}

void ImportedObjects::look() {
  for (auto each = imports_.begin(); each != imports_.end();) {
    const Import& import = each->second;
    if (import.coming != nullptr || store_->ledger.has(import.here)) {
      ++each;
      continue;
    }
    const Location origin = import.origin;
    by_place_.erase(import.here.place);
    each = imports_.erase(each);
    release_if_unused(origin);
  }
}

// An object that is being claimed anew must not be released.
void ImportedObjects::release_if_unused(const Location& origin) {
  if (imports_.contains(origin.id) || claiming_.contains(origin.id)) return;
  // Without a connection the node hears of it from claim_again().
  if (const auto link = links_.link_to(origin.node)) link->send(wire::ReleaseObject{origin});
}

// ---- Nodes that have the objects

// The node has not heard of releases while there was no connection. So all claims are made again, and then the node is
// told to drop the others.
async::Async<void> ImportedObjects::claim_again(NodeId node, NodeLinks::Link link) {
  std::vector<Location> theirs;
  for (const auto& [id, import] : imports_) {
    if (import.origin.node == node) theirs.push_back(import.origin);
  }
  for (const Location& origin : theirs) {
    const auto import = imports_.find(origin.id);
    if (import == imports_.end()) continue;
    wire::Message ask = wire::ClaimObject{origin};
    const auto claimed =
        co_await link->request(std::move(ask), std::vector<Fd>{}, async::Deadline::after(kClaimTime, executor_.now()));
    if (!claimed && !object_store::is_lost(claimed.error())) co_return links_.give_up(node, *link);
    const auto still = imports_.find(origin.id);
    if (still != imports_.end()) still->second.claimed = claimed.ok();
    if (still == imports_.end()) release_if_unused(origin);
  }
  link->send(wire::ReleaseObject{});
}

// That node keeps the claims for kAwayTime, so this one tries to connect for as long; also if it has none of its
// objects any more, because the releases may have been lost with the connection.
async::Async<void> ImportedObjects::reach_again(NodeId node) {
  const TimePoint until = executor_.now() + kAwayTime;
  while (executor_.now() < until) {
    const auto link = co_await links_.reach(node);
    if (link) co_return;
    if (link.error().code() == ErrorCode::kNotFound) break;
    const auto slept = co_await async::sleep(kAgainTime);
    if (!slept) co_return;
  }
  for (auto& [id, import] : imports_) {
    if (import.origin.node == node) import.claimed = false;
  }
  links_.forget_if_unused(node);
}

void ImportedObjects::ask_whether_lost(NodeId node, async::UniqueFunction<void(bool lost)> then) {
  background_.spawn(ask_address(node, std::move(then)));
}

async::Async<void> ImportedObjects::ask_address(NodeId node, async::UniqueFunction<void(bool lost)> then) {
  const auto address = co_await find_(node);
  if (!address && address.error().code() == ErrorCode::kCancelled) co_return;  // this node ends
  then(!address && address.error().code() == ErrorCode::kNotFound);
}

// ---- Objects of a node that drains

bool ImportedObjects::on_asked(const NodeLinks::Link& link, const wire::Message& message, std::uint64_t request) {
  if (const auto* const take = std::get_if<wire::TakeObject>(&message)) {
    background_.spawn(answer_take(link, take->object, request));
    return true;
  }
  if (const auto* const moved = std::get_if<wire::ObjectMoved>(&message)) {
    background_.spawn(answer_moved(link, *moved, request));
    return true;
  }
  return false;
}

/// Why nothing here is that object: kNotFound, and then the claim of this node may end; or it is being claimed just
/// now.
Error ImportedObjects::not_taken(const Location& object) const {
  const std::string what = "object " + to_string(object.id) + " of node " + to_string(object.node);
  if (claiming_.contains(object.id)) return {ErrorCode::kUnavailable, what + " is being claimed"};
  return {ErrorCode::kNotFound, "nothing here needs " + what};
}

async::Async<void> ImportedObjects::answer_take(NodeLinks::Link link, Location object, std::uint64_t request) {
  auto taken = co_await take(object);
  if (taken) {
    link->respond(request, wire::ObjectImported{*taken});
  } else {
    link->respond(request, std::move(taken).error());
  }
}

async::Async<Result<object_store::Location>> ImportedObjects::take(Location object) {
  const auto import = imports_.find(object.id);
  if (import == imports_.end() || import->second.origin != object) co_return not_taken(object);
  const Location here = import->second.here;
  PHAROS_CO_TRY(const auto pin, pins_.take(PinKind::kRead, here));
  if (!pin) co_return not_taken(object);
  if (!pin->object.in_memory) {
    async::Completion<void> brought;
    bring_(pins_.table(), here, [brought](Result<void> end) mutable {
      if (end) {
        brought.complete();
      } else {
        brought.fail(std::move(end).error());
      }
    });
    auto end = co_await brought.wait(async::Deadline::never());
    if (!end) {
      pins_.drop(pin->number);
      co_return std::move(end).error();
    }
  }
  Import& its = imports_.at(object.id);  // its pin keeps it
  its.origin = its.here;
  its.claimed = false;
  pins_.drop(pin->number);
  failpoint(failpoints::kObjectHere);
  co_return here;
}

async::Async<void> ImportedObjects::answer_moved(NodeLinks::Link link, wire::ObjectMoved moved, std::uint64_t request) {
  auto followed = co_await follow(moved);
  if (followed) {
    link->respond(request, wire::Done{});
  } else {
    link->respond(request, std::move(followed).error());
  }
}

async::Async<Result<void>> ImportedObjects::follow(wire::ObjectMoved moved) {
  const auto import = imports_.find(moved.object.id);
  if (import == imports_.end() || import->second.origin != moved.object) co_return not_taken(moved.object);
  ++claiming_[moved.to.id];
  auto claimed = co_await claim(moved.to);
  if (--claiming_[moved.to.id] == 0) claiming_.erase(moved.to.id);
  const auto still = imports_.find(moved.to.id);
  const bool follows = claimed && !claimed->elsewhere.node && still != imports_.end();
  if (follows) still->second.origin = moved.to;
  if (!follows) release_if_unused(moved.to);  // the claim may have been made
  if (!claimed) co_return std::move(claimed).error();
  if (claimed->elsewhere.node) {
    co_return Error{ErrorCode::kUnavailable, "object " + to_string(moved.to.id) + " has moved on"};
  }
  co_return {};
}

// ---- Bytes

void ImportedObjects::bring(const Body& body, Urgency urgency, Done done) {
  const ObjectId id = by_place_.at(body.location.place);
  pulls_.add({id, imports_.at(id).origin.node, body, std::move(done)}, urgency);
  executor_.post([this] { begin_pulls(); });
}

void ImportedObjects::hurry(const Place& here) {
  if (pulls_.hurry(here)) executor_.post([this] { begin_pulls(); });
}

void ImportedObjects::begin_pulls() {
  while (auto next = pulls_.next()) {
    const auto memory = store_->bytes();
    Import& import = imports_.at(next->id);
    if (memory) import.coming = Chunks::none_of(memory->subspan(next->body.offset, next->body.size), store_);
    background_.spawn(pull(next->id, next->body, std::move(next->done)));
  }
}

async::Async<void> ImportedObjects::pull(ObjectId id, Body body, Done done) {
  auto pulled = co_await pull_all(id, body);
  Import& import = imports_.at(id);  // look() keeps an import that is being pulled
  if (!pulled && import.coming != nullptr) {
    import.coming->give_up(pulled.error());
    if (import.relays != 0) {
      [[maybe_unused]] const auto none = co_await import.no_relays.wait(async::Deadline::never());
    }
    store_->ledger.note_provided(body.location.place.slot, 0);
    store_->release(body.offset, body.slot_bytes);
  }
  Import& its = imports_.at(id);
  its.coming = nullptr;
  pulls_.end();
  done(std::move(pulled));
  begin_pulls();
}

void ImportedObjects::set_aside(std::optional<PullQueue::Aside>& aside, NodeId origin) {
  if (aside) return;
  aside.emplace(pulls_, origin);
  begin_pulls();
}

// Pulls from the object's own node, or from the node that this one names; when that stream breaks off, from the own
// node again. If the own node is lost, the nodes that were named are tried last. Chunks that have come stay.
async::Async<Result<void>> ImportedObjects::pull_all(ObjectId id, Body body) {
  PHAROS_CO_TRY_VOID(store_->bytes());
  PHAROS_CO_TRY_VOID(co_await provide(body));
  const Location origin = imports_.at(id).origin;
  const auto chunks = imports_.at(id).coming;
  NodeId source = origin.node;
  bool insists = false;
  std::optional<Error> why;
  std::optional<PullQueue::Aside> aside;
  const TimePoint begun = executor_.now();
  for (int attempts = 0; attempts < kAttempts;) {
    const TimePoint asked = executor_.now();
    const std::size_t before = chunks->arrived();
    const auto address = co_await links_.find_address(source);
    if (!address && address.error().code() == ErrorCode::kDeadlineExceeded && executor_.now() < begun + kAwayTime) {
      set_aside(aside, origin.node);
      PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));  // the head waits for that node, or is away
      continue;
    }
    const auto pulled = co_await pull_from(source, PullRequest{origin, self_, insists}, chunks);
    if (pulled && !*pulled) co_return {};
    if (pulled && !insists) {
      auto& others = imports_.at(id).others;
      if (std::find(others.begin(), others.end(), **pulled) == others.end()) others.push_back(**pulled);
      source = **pulled == self_ ? origin.node : **pulled;
      insists = true;
      continue;
    }
    why = pulled ? Error{ErrorCode::kCorrupt,
                         "a node was asked for its own copy of the object, and named another node again"}
                 : pulled.error();
    if (why->code() == ErrorCode::kCancelled) co_return *why;
    if (source != origin.node) {
      source = origin.node;
      continue;
    }
    if (object_store::is_lost(*why) || why->code() == ErrorCode::kNotFound) break;
    links_.ask_anew_where(origin.node);
    set_aside(aside, origin.node);
    const bool goes_on = chunks->arrived() != before || is_silent(begun, asked, executor_.now());
    attempts = goes_on ? 0 : attempts + 1;
    PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));
  }
  for (const NodeId other : std::vector<NodeId>{imports_.at(id).others}) {
    const auto pulled = co_await pull_from(other, PullRequest{origin, self_, true}, chunks);
    if (pulled && !*pulled) co_return {};
  }
  if (object_store::is_lost(*why)) co_return *why;
  co_return lost_with_its_node(id, *why);
}

async::Async<Result<std::optional<NodeId>>> ImportedObjects::pull_from(NodeId source, PullRequest request,
                                                                       std::shared_ptr<Chunks> chunks) {
  PHAROS_CO_TRY(std::string address, co_await links_.find_address(source));
  async::Completion<std::optional<NodeId>> pulled;
  host_.pull(std::move(address), request, std::move(chunks), [pulled](Result<std::optional<NodeId>> end) mutable {
    if (end) {
      pulled.complete(*end);
    } else {
      pulled.fail(std::move(end).error());
    }
  });
  co_return co_await pulled.wait(async::Deadline::never());
}

async::Async<Result<void>> ImportedObjects::provide(Body body) {
  if (store_->ledger.provided(body.location.place.slot) >= body.slot_bytes) co_return {};
  async::Completion<void> provided;
  auto result = std::make_shared<Result<void>>();
  host_.run_blocking(
      [store = store_, body, result] { *result = store->objects.allocate(body.offset, body.slot_bytes); },
      [provided, result]() mutable {
        if (*result) {
          provided.complete();
        } else {
          provided.fail(result->error());
        }
      });
  co_return co_await provided.wait(async::Deadline::never());
}

std::shared_ptr<Chunks> ImportedObjects::begin_relay(const ObjectId& id) {
  const auto found = imports_.find(id);
  if (found == imports_.end() || found->second.coming == nullptr) return nullptr;
  if (found->second.relays++ == 0) found->second.no_relays = {};
  return found->second.coming;
}

void ImportedObjects::end_relay(const ObjectId& id) {
  Import& import = imports_.at(id);
  if (--import.relays == 0) import.no_relays.complete();
}

}  // namespace pharos::node
