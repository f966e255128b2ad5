#include "daemon/membership.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/node/failpoints.hpp>

#include "node/demands.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kTickTime = 1s;
constexpr auto kJoinPause = 100ms;
constexpr auto kRejoinTime = 5s;
constexpr Duration kFirstPause = 50ms;  // before the head is looked for again
constexpr Duration kLongestPause = 500ms;
constexpr auto kReopenTime = 500ms;
// If a connection ends after so much silence, the network has ended it, and not the process at its other end.
constexpr auto kQuietTime = 5s;
constexpr std::uint32_t kQuietTicks = 5;
// A connection that outlived a silence may still end because of it: TCP gives up late, or the other end has given up
// before.
constexpr Duration kAfterQuiet = std::chrono::seconds{5};
// A head without records takes no node back that was silent for longer than 70 s, and after a restart it takes back no
// node at all. So it is useless to look for such a head for longer.
constexpr Duration kAwayMaxWithoutRecords = 90s;
constexpr std::size_t kOutputQueuedMax = std::size_t{16} << 20;  // to a node; more output is dropped

/// Varies a pause at random, so that a thousand nodes do not come back at the same moment.
Duration about(Duration pause) {
  return pause / 2 + Duration{static_cast<std::int64_t>(random_u64() % static_cast<std::uint64_t>(pause.count()))};
}

}  // namespace

Membership::Membership(async::Executor& executor, Host& host, Settings settings, Ends ends)
    : executor_{executor},
      host_{host},
      id_{settings.node.id},
      head_address_{settings.node.head_address},
      open_records_{std::move(settings.open_records)},
      away_max_{settings.away_max},
      ends_{std::move(ends)},
      node_{executor, host, settings.node, [this](wire::Message message) { tell_head(std::move(message)); },
            [this] { return queued_to_head(); }},
      background_{executor} {
  node_.when_told_to_end([this] { end_all(); });
  if (!head_address_.empty() || open_records_) return;
  head_ = std::make_unique<Head>(executor);
  head_->add_node(id_, own_description(), tell_own_node());
  joined_ = true;
}

/// Bytes that the head has not read. As much as can be while it is away, so that the output of workers waits in their
/// pipes.
std::size_t Membership::queued_to_head() const {
  const bool is_here = head_address_.empty();
  const bool is_away = is_here ? head_ == nullptr : head_link_ == nullptr || coming_back_;
  if (is_away) return std::numeric_limits<std::size_t>::max();
  return is_here ? 0 : head_link_->queued();
}

Head::NodeDescription Membership::own_description() const {
  return {.address = {}, .total = node_.machine().resources, .labels = node_.machine().labels};
}

// Messages between head and node are posted: each hears the other only when the other's event is done.
Head::Tell Membership::tell_own_node() {
  return [this](wire::Message message) {
    executor_.post([this, message = std::move(message)]() mutable { node_.on_head_message(std::move(message)); });
  };
}

void Membership::tell_head(wire::Message message) {
  if (!head_address_.empty()) {
    if (Session::belongs(message)) {
      session_.say(std::move(message));
    } else if (head_link_ != nullptr && !coming_back_) {
      head_link_->send(message);
    }
  } else if (head_ != nullptr) {
    executor_.post([this, to = heads_, message = std::move(message)]() mutable {
      if (head_ != nullptr && heads_ == to) head_->on_message(id_, std::move(message));
    });
  } else if (const wire::Asker* const asker = asker_of(message); asker != nullptr && trouble_) {
    executor_.post([this, refused = wire::Refused{asker->number, *trouble_}] { node_.on_head_message(refused); });
  }
}

std::shared_ptr<net::Peer> Membership::link_to(Fd socket) {
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kRefused);
  auto peer = net::Peer::make(executor_, link, *this);
  link->start(peer);
  return peer;
}

// A node that has not joined has no head to which it could report a job.
void Membership::add_driver(Fd socket) {
  if (joined_) {
    node_.add_driver(std::move(socket));
  } else if (waiting_.size() < kWaitingMax) {
    waiting_.push_back(std::move(socket));
  }
}

void Membership::admit_waiting_drivers() {
  joined_ = true;
  for (Fd& driver : std::exchange(waiting_, {})) node_.add_driver(std::move(driver));
}

// ---- The head here

async::Async<Result<std::unique_ptr<storage::KvStore>>> Membership::open_records(Membership* self) {
  struct Opening {
    Result<std::unique_ptr<storage::KvStore>> store = Error{ErrorCode::kCancelled, "not opened"};
    async::Completion<void> done;
  };
  const auto opening = std::make_shared<Opening>();
  self->host_.run_aside([opening, open = self->open_records_] { opening->store = open(); },
                        [opening] { opening->done.complete(); });
  PHAROS_CO_TRY_VOID(co_await opening->done.wait(async::Deadline::never()));
  co_return std::move(opening->store);
}

async::Async<Result<void>> Membership::start(Membership* self) {
  PHAROS_CO_TRY(self->store_, co_await open_records(self));
  failpoint(failpoints::kRecordsOpened);
  PHAROS_CO_TRY(Records::Found found, co_await Records::load(self->store_.get()));
  if (self->closing_) co_return Error{ErrorCode::kCancelled, "the daemon ends"};
  self->records_ = std::make_unique<Records>(
      self->executor_, *self->store_, [self](const Error& why) { self->background_.spawn(replace_head(self, why)); });
  ++self->heads_;
  self->head_ = std::make_unique<Head>(self->executor_, self->id_, self->records_.get());
  self->head_->restore(std::move(found));
  failpoint(failpoints::kRecordsRead);
  if (self->head_->expects(self->id_)) {
    self->head_->return_node(self->id_, self->own_description(), self->tell_own_node());
  } else {
    self->head_->add_node(self->id_, self->own_description(), self->tell_own_node());
  }
  if (self->joined_) self->node_.return_to_head();
  self->admit_waiting_drivers();
  co_return {};
}

/// The head cannot write to its records any more, so another one is made from what they contain.
async::Async<void> Membership::replace_head(Membership* self, Error why) {
  log(LogLevel::kError, "the head cannot write, and starts again from what it has written", {kv("error", why)});
  self->head_.reset();
  for (const auto& [number, node] : self->far_nodes_) {
    if (node.peer != nullptr) node.peer->close();
  }
  self->far_nodes_.clear();
  self->far_links_.clear();
  self->silence_ = Silence{};
  co_await Records::end(std::exchange(self->records_, nullptr));
  for (;;) {
    self->host_.run_aside([store = std::shared_ptr{std::move(self->store_)}]() mutable { store.reset(); }, [] {});
    const auto started = co_await start(self);
    if (started) break;
    if (started.error().code() == ErrorCode::kCancelled) co_return;
    if (!self->trouble_ || self->trouble_->message() != started.error().message()) {
      log(LogLevel::kError, "the head cannot start", {kv("error", started.error())});
    }
    self->trouble_ = started.error();
    const auto slept = co_await async::sleep(kReopenTime);
    if (!slept) co_return;
  }
  self->trouble_.reset();
  log(LogLevel::kWarn, "the head goes on");
}

void Membership::add_node(Fd socket) {
  std::string machine = host_.machine_of(socket.get());
  const auto peer = link_to(std::move(socket));
  const Number number = ++last_far_node_;
  far_nodes_.emplace(number, FarNode{.peer = peer, .machine = std::move(machine), .id = {}});
  far_links_.emplace(peer.get(), number);
  silence_.add(number, "", executor_.now());  // as on this machine until it has joined
  tick_later();
}

std::optional<Membership::Number> Membership::number_of(NodeId id) const {
  const auto found =
      std::find_if(far_nodes_.begin(), far_nodes_.end(), [id](const auto& each) { return each.second.id == id; });
  return found == far_nodes_.end() ? std::nullopt : std::optional{found->first};
}

void Membership::admit(Number number, const wire::JoinCluster& join, std::uint64_t request) {
  FarNode& node = far_nodes_.at(number);
  const auto refuse = [&](Error why) { node.peer->respond(request, std::move(why)); };
  if (!head_address_.empty()) {
    return refuse({ErrorCode::kFailedPrecondition, "this address belongs to a node, not to the head",
                   "Join its head, at " + head_address_ + "."});
  }
  if (head_ == nullptr) {
    return refuse(trouble_ ? Error{ErrorCode::kUnavailable, trouble_->message()}
                           : Error{ErrorCode::kUnavailable, "the head is starting"});
  }
  auto total = scheduler::Resources::checked(join.amounts);
  if (!total) return refuse(std::move(total).error());
  if (const auto labels = scheduler::check_labels(join.labels); !labels) return refuse(labels.error());
  const Head::NodeDescription description{.address = join.address, .total = *total, .labels = join.labels};
  if (join.again) {
    if (resume(number, join, request)) return;
    // The session cannot go on, so the node on its earlier connection is lost.
    if (const auto before = number_of(join.node)) {
      const auto link = far_nodes_.at(*before).peer;
      lose(*before, false);
      if (link != nullptr) link->close();
    }
  }
  if (join.again && !head_->expects(join.node)) {
    node.peer->respond(request, wire::ClusterJoined{.lost = true});
    return;
  }
  if (!join.again && head_->knows(join.node)) return refuse({ErrorCode::kAlreadyExists, "the node has joined before"});
  if (!join.again) head_->remove_node(join.node);  // its first join was recorded by a head that ended before the answer
  node.id = join.node;
  node.session = std::make_shared<Session>(random_u64());
  node.session->begin(node.peer);
  silence_.add(number, node.machine, executor_.now());
  note_heard(number);
  auto tell_node = [session = node.session, peer = node.peer, request](wire::Message message) {
    if (auto* const joined = std::get_if<wire::ClusterJoined>(&message)) {
      joined->session = session->number();
      peer->respond(request, message);
    } else if (Session::belongs(message)) {
      session->say(std::move(message));
    } else if (const auto& link = session->link(); link != nullptr && link->queued() < kOutputQueuedMax) {
      link->send(message);  // else the output is dropped
    }
  };
  if (join.again) {
    head_->return_node(join.node, description, std::move(tell_node));
  } else {
    head_->add_node(join.node, description, std::move(tell_node));
  }
}

/// Continues the session of a node that has come back. Returns false if the node has no session with this head that can
/// go on. A node that has not reported everything has to report again.
bool Membership::resume(Number number, const wire::JoinCluster& join, std::uint64_t request) {
  const auto before = number_of(join.node);
  if (!before || head_->awaits_report_of(join.node)) return false;
  FarNode& node = far_nodes_.at(*before);
  if (node.session->number() != join.session || !node.session->can_resume(join.heard)) return false;
  if (node.peer != nullptr) {
    far_links_.erase(node.peer.get());
    node.peer->close();
  }
  node.peer = far_nodes_.extract(number).mapped().peer;
  silence_.remove(number);
  far_links_[node.peer.get()] = *before;
  log(LogLevel::kInfo, "a node whose connection had ended is back", {kv("node", node.id)});
  node.peer->respond(request,
                     wire::ClusterJoined{.session = join.session, .resumed = true, .heard = node.session->heard()});
  node.session->resume(node.peer, join.heard);
  note_heard(*before);
  return true;
}

void Membership::note_heard(Number number) {
  const bool was_quiet = silence_.ticks_of(number) >= kQuietTicks;
  if (silence_.heard(number, executor_.now()) == Silence::Change::kSuspicionEnds) {
    log(LogLevel::kWarn, "another machine is heard again: the link of this machine was down");
  }
  FarNode& node = far_nodes_.at(number);
  if (was_quiet) node.quiet_until = executor_.now() + kAfterQuiet;
  if (std::exchange(node.away, false) && head_ != nullptr) head_->node_is_back(node.id);
}

void Membership::suspect_own_link() {
  log(LogLevel::kWarn,
      "no message comes from any other machine: perhaps the link of this machine is down; nodes may come back",
      {kv("seconds", Silence::kSuspicionTicksMax)});
  for (auto& [number, node] : far_nodes_) {
    if (!silence_.is_elsewhere(number)) continue;
    node.away = true;
    if (head_ != nullptr) head_->node_is_away(node.id);
  }
}

void Membership::lose(Number number, bool was_silent) {
  const auto gone = far_nodes_.extract(number);
  if (gone.empty()) return;
  silence_.remove(number);
  const FarNode& node = gone.mapped();
  if (node.peer != nullptr) far_links_.erase(node.peer.get());
  if (node.id && head_ != nullptr) head_->remove_node(node.id, was_silent);
}

// ---- A head elsewhere

async::Async<Result<wire::ClusterJoined>> Membership::ask_to_join(Membership* self, Fd head, bool again,
                                                                  async::Deadline deadline) {
  if (self->head_link_ != nullptr) self->head_link_->close();
  const auto link = self->head_link_ = self->link_to(std::move(head));
  if (!again) {
    self->session_ = Session{};
    self->session_.begin(link);
  }
  const Machine& machine = self->node_.machine();
  const wire::Beat asked{self->executor_.now()};
  const std::uint64_t heard_before = self->session_.heard();
  wire::Message ask = wire::JoinCluster{.node = self->id_,
                                        .address = self->reached_at_,
                                        .amounts = machine.resources.amounts(),
                                        .labels = machine.labels,
                                        .again = again,
                                        .session = self->session_.number(),
                                        .heard = heard_before};
  PHAROS_CO_TRY(const net::Parcel answer, co_await link->request(std::move(ask), std::vector<Fd>{}, deadline));
  const auto* const joined = std::get_if<wire::ClusterJoined>(&answer.message);
  if (joined == nullptr)
    co_return Error{ErrorCode::kInternal, "the head sent an invalid answer to the request to join"};
  if (joined->resumed && !self->session_.can_resume(joined->heard)) {
    self->session_ = Session{};  // so that the head gives this node up at the next attempt
    co_return Error{ErrorCode::kExhausted, "this node has sent more messages than it can keep while the head was away"};
  }
  if (!joined->lost) self->node_.pass_on_beat(asked);
  if (!joined->lost) self->go_on_with(*joined, heard_before);
  self->head_spoke_ = self->executor_.now();
  self->tick_later();
  co_return *joined;
}

/// The head has taken this node. If the connection has ended since, nothing goes on yet. Messages that came after the
/// answer have been counted already, so a new session begins with that count. Nothing is said between the end of the
/// old session and the reports with which the new one begins.
void Membership::go_on_with(const wire::ClusterJoined& joined, std::uint64_t heard_before) {
  if (joined.resumed) {
    if (head_link_ == nullptr) return;
    session_.resume(head_link_, joined.heard);
    coming_back_ = false;
    ++returns_;
    return;
  }
  head_lasts_ = joined.lasts;
  if (!coming_back_) return session_.set_number(joined.session);
  const std::uint64_t heard = session_.heard() - heard_before;
  session_ = Session{head_link_ == nullptr ? 0 : joined.session};
  if (head_link_ == nullptr) return;
  for (std::uint64_t i = 0; i < heard; ++i) session_.note_heard();
  session_.begin(head_link_);
  coming_back_ = false;
  ++returns_;
  node_.note_cluster(joined);
  node_.return_to_head();
}

async::Async<Result<void>> Membership::join(Membership* self, ReachedAt reached_at, async::Deadline deadline) {
  for (;;) {
    auto joined = co_await try_to_join(self, reached_at, deadline);
    if (joined || joined.error().code() != ErrorCode::kUnavailable) co_return joined;
    const auto slept = co_await async::sleep(kJoinPause);
    if (!slept || deadline.expired(self->executor_.now() + kJoinPause)) co_return joined;
  }
}

async::Async<Result<void>> Membership::try_to_join(Membership* self, ReachedAt reached_at, async::Deadline deadline) {
  const Introduction introduction{.purpose = Introduction::Purpose::kJoin};
  PHAROS_CO_TRY(Fd socket, co_await self->host_.reach(self->head_address_, introduction, deadline));
  PHAROS_CO_TRY(self->reached_at_, reached_at(socket.get()));
  PHAROS_CO_TRY(const auto cluster, co_await ask_to_join(self, std::move(socket), false, deadline));
  self->node_.note_cluster(cluster);
  self->admit_waiting_drivers();
  // The connection may have ended since.
  if (self->head_link_ == nullptr) self->lose_head(Error{ErrorCode::kUnavailable, "the head has ended"});
  co_return {};
}

void Membership::lose_head(const Error& why) {
  head_link_.reset();
  session_.pause();
  if (!joined_ || std::exchange(coming_back_, true)) return;
  // A head without records that was heard just now has ended for good. Otherwise a head may still be there.
  const TimePoint now = executor_.now();
  const bool may_be_there = head_lasts_ || now - head_spoke_ >= kQuietTime || now < after_silence_;
  if (!may_be_there) return ends_.lost(why);
  background_.spawn(come_back(this, why));
}

/// A message has come from the head. It may have been sent before a cut of the network, or while this process was
/// stopped, and the connection may end just after it. So a silence before it still counts for some seconds.
void Membership::note_head_spoke() {
  const TimePoint now = executor_.now();
  if (joined_ && now - head_spoke_ >= kQuietTime) after_silence_ = now + kQuietTime;
  head_spoke_ = now;
}

async::Async<void> Membership::come_back(Membership* self, Error why) {
  log(LogLevel::kWarn, "the head is gone, and is looked for again",
      {kv("head", self->head_address_), kv("error", why)});
  const TimePoint since = self->executor_.now();
  const Duration away_max = self->head_lasts_ ? self->away_max_ : std::min(self->away_max_, kAwayMaxWithoutRecords);
  for (Duration pause = kFirstPause; self->executor_.now() - since < away_max;
       pause = std::min(2 * pause, kLongestPause)) {
    const auto slept = co_await async::sleep(about(pause));
    if (!slept) co_return;
    const auto deadline = async::Deadline::after(kRejoinTime, self->executor_.now());
    const Introduction introduction{.purpose = Introduction::Purpose::kJoin};
    auto socket = co_await self->host_.reach(self->head_address_, introduction, deadline);
    if (!socket) {
      why = std::move(socket).error();
      continue;
    }
    const std::uint64_t returns_before = self->returns_;
    // A head that starts has much to do, perhaps on a slow disk. So the answer has all the time that is left; only the
    // end of the connection ends the attempt before.
    const auto patience = async::Deadline::after(away_max - (self->executor_.now() - since), self->executor_.now());
    const auto joined = co_await ask_to_join(self, *std::move(socket), true, patience);
    if (!joined) {
      if (joined.error().code() == ErrorCode::kCancelled) co_return;
      why = joined.error();
      continue;
    }
    if (joined->lost) {
      self->ends_.given_up();
      co_return;
    }
    if (self->returns_ == returns_before) continue;
    log(LogLevel::kInfo, "the head is back", {kv("head", self->head_address_)});
    co_return;
  }
  self->ends_.lost(why);
}

// ---- Both

void Membership::end_all() {
  for (const auto& [number, node] : far_nodes_) {
    if (node.session != nullptr) node.session->say(wire::EndNode{});
  }
  if (ends_.told_to) ends_.told_to();
}

void Membership::tick_later() {
  if (std::exchange(ticks_, true)) return;
  executor_.run_at(executor_.now() + kTickTime, [this, alive = std::weak_ptr{alive_}] {
    if (alive.expired()) return;
    ticks_ = false;
    tick();
  });
}

void Membership::tick() {
  if (closing_) return;
  if (!head_address_.empty()) {
    if (joined_ && head_link_ != nullptr) {
      head_link_->send(wire::Beat{executor_.now(), coming_back_ ? 0 : session_.heard()});
      tick_later();
    }
    return;
  }
  const Silence::Tick ticked = silence_.tick();
  if (ticked.change == Silence::Change::kSuspicionBegins) suspect_own_link();
  for (const Number number : ticked.lost) {
    const auto link = far_nodes_.at(number).peer;
    log(LogLevel::kWarn, "a node has sent nothing for too long, and is given up",
        {kv("node", far_nodes_.at(number).id)});
    lose(number, true);
    if (link != nullptr) link->close();
  }
  if (!far_nodes_.empty()) tick_later();
}

void Membership::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto* const beat = std::get_if<wire::Beat>(&parcel.message);
  if (head_link_ != nullptr && &from == head_link_.get()) {
    note_head_spoke();
    if (beat != nullptr) {
      if (!coming_back_) session_.confirm(beat->heard);
      return node_.pass_on_beat(*beat);
    }
    if (Session::belongs(parcel.message)) session_.note_heard();
    if (std::holds_alternative<wire::EndNode>(parcel.message)) return end_all();
    return node_.on_head_message(std::move(parcel.message));
  }
  const auto found = far_links_.find(&from);
  if (found == far_links_.end()) return;
  const Number number = found->second;
  note_heard(number);
  const FarNode& node = far_nodes_.at(number);
  if (beat != nullptr) {
    if (node.session != nullptr) node.session->confirm(beat->heard);
    from.send(wire::Beat{beat->sent, node.session == nullptr ? 0 : node.session->heard()});
    return;
  }
  const auto* const join = std::get_if<wire::JoinCluster>(&parcel.message);
  if (join != nullptr && request && !node.id) return admit(number, *join, *request);
  if (!node.id) return;
  if (Session::belongs(parcel.message)) node.session->note_heard();
  if (head_ != nullptr) head_->on_message(node.id, std::move(parcel.message));
}

void Membership::on_peer_closed(net::Peer& peer, const Error& why) {
  if (head_link_ != nullptr && &peer == head_link_.get()) return lose_head(why);
  const auto found = far_links_.find(&peer);
  if (found == far_links_.end()) return;
  const Number number = found->second;
  FarNode& node = far_nodes_.at(number);
  const bool suspects = node.away || (silence_.suspects_own_link() && silence_.is_elsewhere(number));
  const bool by_network = suspects || silence_.ticks_of(number) >= kQuietTicks || executor_.now() < node.quiet_until;
  if (node.session != nullptr && by_network && !closing_) {
    log(LogLevel::kInfo, "the connection of a silent node has ended; the node may come back",
        {kv("node", node.id), kv("error", why)});
    far_links_.erase(found);
    node.session->pause();
    node.peer.reset();
    return;
  }
  if (!closing_) {
    log(LogLevel::kWarn, "a node's connection has ended, and it is given up", {kv("node", node.id), kv("error", why)});
  }
  lose(number, false);
}

void Membership::close() {
  closing_ = true;
  background_.cancel();
  node_.close();
  if (records_ != nullptr) records_->close();
  if (head_link_ != nullptr) head_link_->close();
  for (const auto& [number, node] : far_nodes_) {
    if (node.peer != nullptr) node.peer->close();
  }
}

}  // namespace pharos::node
