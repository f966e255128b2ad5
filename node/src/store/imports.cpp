#include "store/imports.hpp"

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
using object_store::Wish;

constexpr auto kReachTime = 3s;
constexpr auto kClaimTime = 10s;
constexpr auto kAgainTime = 200ms;       // between attempts
constexpr int kAttempts = 4;             // in a row that bring not a single byte
constexpr std::size_t kPullsAtOnce = 4;  // each may fill the wire
constexpr std::size_t kAheadAtOnce = 2;  // a pull that nobody waits for begins below this many
constexpr std::uint64_t kWarmMin = std::uint64_t{4} << 20;
constexpr int kHopsMax = 4;  // nodes that are asked one after the other, because each names another one

// Keeps kNotFound, which says that there is no such node any more.
Error not_reached(NodeId node, const Error& why) {
  return {why.code() == ErrorCode::kNotFound ? why.code() : ErrorCode::kUnavailable,
          "node " + to_string(node) + " cannot be reached: " + why.message()};
}

/// The error for a caller that wants the object and will not get it.
Error lost_with_its_node(const ObjectId& id, const Error& why) {
  return {ErrorCode::kObjectLost,
          "object " + to_string(id) + " is on another node and could not be fetched: " + why.message(),
          "Create the object again, and check that node."};
}

}  // namespace

/// Marks a pull from a node that does not answer, for as long as this object lives. Another pull takes its place among
/// kPullsAtOnce meanwhile. The pull keeps its memory, so no other pull from that node is begun.
class Imports::Aside {
 public:
  Aside(Imports& imports, NodeId node) : imports_{imports}, node_{node} {
    ++imports_.neighbours_[node_].pulls_aside;
    --imports_.pulls_;
    imports_.begin_pulls();
  }
  Aside(Aside&&) = delete;
  ~Aside() {
    --imports_.neighbours_[node_].pulls_aside;
    ++imports_.pulls_;
  }

 private:
  Imports& imports_;
  const NodeId node_;
};

Imports::Imports(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store, NodePins pins,
                 Find find)
    : executor_{executor},
      host_{host},
      self_{self},
      store_{std::move(store)},
      pins_{std::move(pins)},
      find_{std::move(find)},
      background_{executor} {}

void Imports::close() {
  background_.cancel();
  for (auto& [node, neighbour] : neighbours_) {
    if (neighbour.link != nullptr) neighbour.link->close();
  }
}

// ---- Places for objects of other nodes

// The node that passed the object on may not be the one that has it. Then it names that one, which is asked next.
async::Async<Result<object_store::Location>> Imports::import(Imports* self, std::uint32_t table, Location object,
                                                             Duration time) {
  for (int hops = 0; hops < kHopsMax; ++hops) {
    if (object.node == self->self_) co_return self->keep_for(table, object, time);
    if (const auto known = self->imports_.find(object.id); known != self->imports_.end()) {
      auto kept = self->keep_for(table, known->second.here, time);
      if (kept || !object_store::is_lost(kept.error())) co_return kept;
    }
    ++self->claiming_[object.id];
    auto claimed = co_await claim(self, object);
    if (--self->claiming_[object.id] == 0) self->claiming_.erase(object.id);
    if (!claimed) {
      self->release_if_unused(object);  // the claim may still have been made after the time limit
      co_return std::move(claimed).error();
    }
    if (!claimed->elsewhere.node) co_return self->take_in(table, object, *claimed, time);
    object = claimed->elsewhere;
  }
  co_return Error{ErrorCode::kUnavailable, "no node says that it has object " + to_string(object.id)};
}

async::Async<Result<wire::ObjectClaimed>> Imports::claim(Imports* self, Location object) {
  Result<net::Parcel> answer = Error{ErrorCode::kUnavailable, "no node was asked"};
  const TimePoint until = self->executor_.now() + kAwayTime;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt != 0) PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));
    auto link = co_await reach(self, object.node);
    if (!link) {
      answer = std::move(link).error();
      if (answer.error().code() == ErrorCode::kNotFound) break;
      // The head does not say where the node is: it waits for that node, or is away itself.
      const bool head_waits = answer.error().code() == ErrorCode::kDeadlineExceeded;
      if (head_waits && self->executor_.now() < until) attempt = 0;
      continue;
    }
    wire::Message ask = wire::ClaimObject{object};
    answer = co_await (*link)->request(std::move(ask), std::vector<Fd>{},
                                       async::Deadline::after(kClaimTime, self->executor_.now()));
    if (answer) break;
    const bool is_silent = answer.error().code() == ErrorCode::kDeadlineExceeded;
    if (is_silent) self->give_up(object.node, **link);  // it may have ended unnoticed
    if (!is_silent && answer.error().code() != ErrorCode::kUnavailable) break;
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

Result<object_store::Location> Imports::take_in(std::uint32_t table, const Location& origin,
                                                const wire::ObjectClaimed& claimed, Duration time) {
  if (const auto known = imports_.find(origin.id); known != imports_.end()) {  // another import was faster
    auto kept = keep_for(table, known->second.here, time);
    if (kept || !object_store::is_lost(kept.error())) return kept;
    by_place_.erase(known->second.here.place);
    imports_.erase(known);
  }
  if (claimed.size >= kWarmMin) {  // an object that has ended meanwhile may leave its memory to this one
    store_->lender.end_outside();
    store_->lender.reclaim();
    look();
  }
  auto place = store_->lender.lend_outside(origin.id, claimed.size, claimed.label);
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

Result<object_store::Location> Imports::keep_for(std::uint32_t table, const Location& here, Duration time) {
  PHAROS_TRY(const auto pin, pins_.take(PinKind::kKeep, here));
  if (!pin) return object_store::lost(here, !store_->lender.has_process(here.owner));
  const std::uint64_t number = ++last_kept_;
  kept_.emplace(number, Kept{here.place, table, pin->number});
  executor_.run_at(executor_.now() + time, [this, number] {
    if (const auto kept = kept_.extract(number); !kept.empty()) pins_.drop(kept.mapped().pin);
  });
  return here;
}

void Imports::is_kept(std::uint32_t table, const Place& here) {
  std::erase_if(kept_, [&](const auto& entry) {
    const Kept& kept = entry.second;
    if (kept.table != table || kept.here != here) return false;
    pins_.drop(kept.pin);
    return true;
  });
}

void Imports::process_ended(std::uint32_t table) {
  std::erase_if(kept_, [&](const auto& entry) {
    if (entry.second.table == table) pins_.drop(entry.second.pin);
    return entry.second.table == table;
  });
}

std::optional<object_store::Location> Imports::find(const ObjectId& id) const {
  const auto found = imports_.find(id);
  return found == imports_.end() ? std::nullopt : std::optional{found->second.here};
}

const object_store::Location* Imports::origin_of(const Place& here) const {
  const auto found = by_place_.find(here);
  return found == by_place_.end() ? nullptr : &imports_.at(found->second).origin;
}

bool Imports::is_elsewhere(const Place& here) const {
  const auto found = by_place_.find(here);
  return found != by_place_.end() && imports_.at(found->second).claimed;
}

void Imports::look() {
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
void Imports::release_if_unused(const Location& origin) {
  if (imports_.contains(origin.id) || claiming_.contains(origin.id)) return;
  const auto neighbour = neighbours_.find(origin.node);
  if (neighbour == neighbours_.end() || neighbour->second.link == nullptr) return;  // the claim there ends by itself
  neighbour->second.link->send(wire::ReleaseObject{origin});
}

// ---- Nodes that have the objects

async::Async<Result<std::string>> Imports::find_address(Imports* self, NodeId node) {
  if (const auto known = self->neighbours_.find(node); known != self->neighbours_.end()) {
    if (!known->second.address.empty()) co_return known->second.address;
  }
  PHAROS_CO_TRY(std::string address, co_await self->find_(node));
  self->neighbours_[node].address = address;
  co_return std::move(address);
}

// The first caller connects. Those that come meanwhile wait for its connection.
async::Async<Result<std::shared_ptr<net::Peer>>> Imports::reach(Imports* self, NodeId node) {
  Neighbour& there = self->neighbours_[node];
  if (there.link != nullptr) co_return there.link;
  if (std::exchange(there.connecting, true)) {
    async::Completion<std::shared_ptr<net::Peer>> connected;
    there.waiting.push_back(connected);
    co_return co_await connected.wait(async::Deadline::after(2 * kReachTime, self->executor_.now()));
  }
  auto link = co_await connect(self, node);
  Neighbour& neighbour = self->neighbours_[node];
  neighbour.connecting = false;
  if (link) {
    self->background_.spawn(claim_again(self, node, *link));
  } else {
    neighbour.address.clear();  // the node may have another address by now
  }
  for (auto& waiting : std::exchange(neighbour.waiting, {})) {
    if (link) {
      waiting.complete(*link);
    } else {
      waiting.fail(link.error());
    }
  }
  self->forget_if_unused(node);
  co_return link;
}

async::Async<Result<std::shared_ptr<net::Peer>>> Imports::connect(Imports* self, NodeId node) {
  auto address = co_await find_address(self, node);
  if (!address && address.error().code() == ErrorCode::kDeadlineExceeded) co_return std::move(address).error();
  if (!address) co_return not_reached(node, address.error());
  const Introduction introduction{.purpose = Introduction::Purpose::kClaims, .caller = self->self_.value()};
  auto socket =
      co_await self->host_.reach(*address, introduction, async::Deadline::after(kReachTime, self->executor_.now()));
  if (!socket) co_return not_reached(node, socket.error());
  const auto link = self->host_.make_link(*std::move(socket), net::Descriptors::kRefused);
  auto peer = net::Peer::make(self->executor_, link, *self);
  self->neighbours_[node].link = peer;  // before on_peer_closed() can be called for it
  link->start(peer);
  co_return peer;
}

// The node has not heard of releases while there was no connection. So all claims are made again, and then the node is
// told to drop the others.
async::Async<void> Imports::claim_again(Imports* self, NodeId node, std::shared_ptr<net::Peer> link) {
  std::vector<Location> theirs;
  for (const auto& [id, import] : self->imports_) {
    if (import.origin.node == node) theirs.push_back(import.origin);
  }
  for (const Location& origin : theirs) {
    const auto import = self->imports_.find(origin.id);
    if (import == self->imports_.end()) continue;
    wire::Message ask = wire::ClaimObject{origin};
    const auto claimed = co_await link->request(std::move(ask), std::vector<Fd>{},
                                                async::Deadline::after(kClaimTime, self->executor_.now()));
    if (!claimed && !object_store::is_lost(claimed.error())) co_return self->give_up(node, *link);
    const auto still = self->imports_.find(origin.id);
    if (still != self->imports_.end()) still->second.claimed = claimed.ok();
    if (still == self->imports_.end()) self->release_if_unused(origin);
  }
  link->send(wire::ReleaseObject{});
}

void Imports::on_peer_closed(net::Peer& peer, const Error&) {
  for (auto& [node, neighbour] : neighbours_) {
    if (neighbour.link.get() != &peer) continue;
    neighbour.link = nullptr;
    if (has_any_of(node)) return background_.spawn(reach_again(this, node));
    return forget_if_unused(NodeId{node});
  }
}

// Closes a connection over which no answer comes, unless it has ended by itself.
void Imports::give_up(NodeId node, net::Peer& link) {
  const auto neighbour = neighbours_.find(node);
  if (neighbour == neighbours_.end() || neighbour->second.link.get() != &link) return;
  link.close();
  on_peer_closed(link, Error{ErrorCode::kUnavailable, "the node does not answer"});
}

bool Imports::has_any_of(NodeId node) const {
  return std::any_of(imports_.begin(), imports_.end(),
                     [node](const auto& entry) { return entry.second.origin.node == node; });
}

// That node keeps the claims for kAwayTime, so this one tries to connect for as long.
async::Async<void> Imports::reach_again(Imports* self, NodeId node) {
  const TimePoint until = self->executor_.now() + kAwayTime;
  while (self->executor_.now() < until && self->has_any_of(node)) {
    const auto link = co_await reach(self, node);
    if (link) co_return;
    if (link.error().code() == ErrorCode::kNotFound) break;
    const auto slept = co_await async::sleep(kAgainTime);
    if (!slept) co_return;
  }
  for (auto& [id, import] : self->imports_) {
    if (import.origin.node == node) import.claimed = false;
  }
  self->forget_if_unused(node);
}

void Imports::ask_whether_lost(NodeId node, async::UniqueFunction<void(bool lost)> then) {
  background_.spawn(ask_whether_lost(this, node, std::move(then)));
}

async::Async<void> Imports::ask_whether_lost(Imports* self, NodeId node, async::UniqueFunction<void(bool lost)> then) {
  const auto address = co_await self->find_(node);
  if (!address && address.error().code() == ErrorCode::kCancelled) co_return;  // this node ends
  then(!address && address.error().code() == ErrorCode::kNotFound);
}

// Nodes come and go, above all those that belong to one program. So a node that is not used is forgotten.
void Imports::forget_if_unused(NodeId node) {
  const auto found = neighbours_.find(node);
  if (found == neighbours_.end() || found->second.link != nullptr) return;
  if (!found->second.connecting && found->second.pulls_aside == 0) neighbours_.erase(found);
}

// ---- Bytes

void Imports::bring(const Body& body, Urgency urgency, Done done) {
  const ObjectId id = by_place_.at(body.location.place);
  (urgency == Urgency::kAhead ? ahead_ : waiting_).push_back({id, body, std::move(done)});
  executor_.post([this] { begin_pulls(); });
}

void Imports::hurry(const Place& here) {
  const auto ahead =
      std::find_if(ahead_.begin(), ahead_.end(), [&](const Pull& pull) { return pull.body.location.place == here; });
  if (ahead == ahead_.end()) return;
  waiting_.push_back(std::move(*ahead));
  ahead_.erase(ahead);
  executor_.post([this] { begin_pulls(); });
}

void Imports::begin_pulls() {
  begin_pulls(waiting_, kPullsAtOnce);
  begin_pulls(ahead_, kAheadAtOnce);
}

void Imports::begin_pulls(std::deque<Pull>& from, std::size_t pulls_max) {
  while (pulls_ < pulls_max) {
    const auto next = std::find_if(from.begin(), from.end(), [this](const Pull& pull) {
      const auto node = neighbours_.find(imports_.at(pull.id).origin.node);
      return node == neighbours_.end() || node->second.pulls_aside == 0;
    });
    if (next == from.end()) return;
    Pull pull = std::move(*next);
    from.erase(next);
    begin_pull(std::move(pull));
  }
}

void Imports::begin_pull(Pull next) {
  ++pulls_;
  const auto memory = store_->bytes();
  if (memory) imports_.at(next.id).coming = Chunks::none_of(memory->subspan(next.body.offset, next.body.size), store_);
  background_.spawn(pull(this, next.id, next.body, std::move(next.done)));
}

async::Async<void> Imports::pull(Imports* self, ObjectId id, Body body, Done done) {
  auto pulled = co_await pull_all(self, id, body);
  Import& import = self->imports_.at(id);  // look() keeps an import that is being pulled
  if (!pulled && import.coming != nullptr) {
    import.coming->give_up(pulled.error());
    if (import.relays != 0) {
      [[maybe_unused]] const auto none = co_await import.no_relays.wait(async::Deadline::never());
    }
    self->store_->ledger.note_provided(body.location.place.slot, 0);
    self->store_->objects.release(body.offset, body.slot_bytes);
  }
  Import& its = self->imports_.at(id);
  its.coming = nullptr;
  --self->pulls_;
  done(std::move(pulled));
  self->begin_pulls();
}

// Pulls from the object's own node, or from the node that this one names; when that stream breaks off, from the own
// node again. If the own node is lost, the nodes that were named are tried last. Chunks that have come stay.
async::Async<Result<void>> Imports::pull_all(Imports* self, ObjectId id, Body body) {
  PHAROS_CO_TRY_VOID(self->store_->bytes());
  PHAROS_CO_TRY_VOID(co_await provide(self, body));
  const Location origin = self->imports_.at(id).origin;
  const auto chunks = self->imports_.at(id).coming;
  NodeId source = origin.node;
  bool insists = false;
  std::optional<Error> why;
  std::optional<Aside> aside;
  const TimePoint until = self->executor_.now() + kAwayTime;
  for (int attempts = 0; attempts < kAttempts;) {
    const std::size_t before = chunks->arrived();
    const auto address = co_await find_address(self, source);
    if (!address && address.error().code() == ErrorCode::kDeadlineExceeded && self->executor_.now() < until) {
      if (!aside) aside.emplace(*self, origin.node);
      PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));  // the head waits for that node, or is away
      continue;
    }
    const auto pulled = co_await pull_from(self, source, Wish{origin, self->self_, insists}, chunks);
    if (pulled && !*pulled) co_return {};
    if (pulled && !insists) {
      auto& others = self->imports_.at(id).others;
      if (std::find(others.begin(), others.end(), **pulled) == others.end()) others.push_back(**pulled);
      source = **pulled == self->self_ ? origin.node : **pulled;
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
    self->ask_anew_where(origin.node);
    if (!aside) aside.emplace(*self, origin.node);
    attempts = chunks->arrived() == before ? attempts + 1 : 0;
    PHAROS_CO_TRY_VOID(co_await async::sleep(kAgainTime));
  }
  for (const NodeId other : std::vector<NodeId>{self->imports_.at(id).others}) {
    const auto pulled = co_await pull_from(self, other, Wish{origin, self->self_, true}, chunks);
    if (pulled && !*pulled) co_return {};
  }
  if (object_store::is_lost(*why)) co_return *why;
  co_return lost_with_its_node(id, *why);
}

/// Forgets the address of a node, unless there is a connection to the node, which shows that the address is right.
void Imports::ask_anew_where(NodeId node) {
  const auto found = neighbours_.find(node);
  if (found != neighbours_.end() && found->second.link == nullptr) found->second.address.clear();
}

async::Async<Result<std::optional<NodeId>>> Imports::pull_from(Imports* self, NodeId source, Wish wish,
                                                               std::shared_ptr<Chunks> chunks) {
  PHAROS_CO_TRY(std::string address, co_await find_address(self, source));
  async::Completion<std::optional<NodeId>> pulled;
  self->host_.pull(std::move(address), wish, std::move(chunks), [pulled](Result<std::optional<NodeId>> end) mutable {
    if (end) {
      pulled.complete(*end);
    } else {
      pulled.fail(std::move(end).error());
    }
  });
  co_return co_await pulled.wait(async::Deadline::never());
}

async::Async<Result<void>> Imports::provide(Imports* self, Body body) {
  if (self->store_->ledger.provided(body.location.place.slot) >= body.slot_bytes) co_return {};
  async::Completion<void> provided;
  auto result = std::make_shared<Result<void>>();
  self->host_.run_aside(
      [store = self->store_, body, result] { *result = store->objects.allocate(body.offset, body.slot_bytes); },
      [provided, result]() mutable {
        if (*result) {
          provided.complete();
        } else {
          provided.fail(result->error());
        }
      });
  co_return co_await provided.wait(async::Deadline::never());
}

std::shared_ptr<Chunks> Imports::begin_relay(const ObjectId& id) {
  const auto found = imports_.find(id);
  if (found == imports_.end() || found->second.coming == nullptr) return nullptr;
  if (found->second.relays++ == 0) found->second.no_relays = {};
  return found->second.coming;
}

void Imports::end_relay(const ObjectId& id) {
  Import& import = imports_.at(id);
  if (--import.relays == 0) import.no_relays.complete();
}

}  // namespace pharos::node
