#include "membership.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/failpoint.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "demands.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kTickTime = 1s;
constexpr auto kJoinPause = 100ms;
constexpr auto kRejoinTime = 5s;
constexpr Duration kFirstPause = 50ms;  // before the head is looked for again
constexpr Duration kLongestPause = 500ms;
constexpr auto kReopenTime = 500ms;
constexpr std::size_t kOutputQueuedMax = std::size_t{16} << 20;  // to a node, of what workers elsewhere write

/// So that a thousand nodes do not come in the same moment.
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

/// Endless while it is away: what workers write waits in their pipes.
std::size_t Membership::queued_to_head() const {
  const bool is_here = head_address_.empty();
  const bool is_away = is_here ? head_ == nullptr : head_link_ == nullptr || coming_back_;
  if (is_away) return std::numeric_limits<std::size_t>::max();
  return is_here ? 0 : head_link_->queued();
}

Head::NodeDescription Membership::own_description() const {
  return {.address = {}, .total = node_.machine().resources, .labels = node_.machine().labels};
}

// Never at once: what one says to the other is heard when the one is done.
Head::Tell Membership::tell_own_node() {
  return [this](wire::Message message) {
    executor_.post([this, message = std::move(message)]() mutable { node_.on_head_message(std::move(message)); });
  };
}

void Membership::tell_head(wire::Message message) {
  if (!head_address_.empty()) {
    if (head_link_ != nullptr && !coming_back_) head_link_->send(message);
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

// A node that has not joined has nobody to tell of a job.
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
  failpoint(Failpoint::kRecordsOpened);
  PHAROS_CO_TRY(Records::Found found, co_await Records::load(self->store_.get()));
  if (self->closing_) co_return Error{ErrorCode::kCancelled, "the daemon ends"};
  self->records_ = std::make_unique<Records>(
      self->executor_, *self->store_, [self](const Error& why) { self->background_.spawn(replace_head(self, why)); });
  ++self->heads_;
  self->head_ = std::make_unique<Head>(self->executor_, self->id_, self->records_.get());
  self->head_->restore(std::move(found));
  failpoint(Failpoint::kRecordsRead);
  if (self->head_->expects(self->id_)) {
    self->head_->return_node(self->id_, self->own_description(), self->tell_own_node());
  } else {
    self->head_->add_node(self->id_, self->own_description(), self->tell_own_node());
  }
  if (self->joined_) self->node_.return_to_head();
  self->admit_waiting_drivers();
  co_return {};
}

/// It cannot write down what it does.
async::Async<void> Membership::replace_head(Membership* self, Error why) {
  log(LogLevel::kError, "the head cannot write, and starts again from what it has written", {kv("error", why)});
  self->head_.reset();
  for (const FarNode& node : self->far_nodes_in_order()) node.peer->close();
  self->far_nodes_.clear();
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
  const auto peer = link_to(std::move(socket));
  far_nodes_.emplace(peer.get(), FarNode{.peer = peer, .id = {}, .number = ++last_far_node_});
  tick_later();
}

void Membership::admit(FarNode& node, const wire::JoinCluster& join, std::uint64_t request) {
  const auto refuse = [&](Error why) { node.peer->respond(request, std::move(why)); };
  if (!head_address_.empty()) {
    return refuse(
        {ErrorCode::kFailedPrecondition, "there is a node, and no head", "Join its head, at " + head_address_ + "."});
  }
  if (head_ == nullptr) {
    return refuse(trouble_ ? Error{ErrorCode::kUnavailable, trouble_->message()}
                           : Error{ErrorCode::kUnavailable, "the head is starting"});
  }
  auto total = scheduler::Resources::checked(join.amounts);
  if (!total) return refuse(std::move(total).error());
  if (const auto labels = scheduler::check_labels(join.labels); !labels) return refuse(labels.error());
  const Head::NodeDescription description{.address = join.address, .total = *total, .labels = join.labels};
  if (join.again && head_->awaits_report_of(join.node)) {  // on a link that it has given up
    const auto before = std::find_if(far_nodes_.begin(), far_nodes_.end(),
                                     [&](const auto& each) { return each.second.id == join.node; });
    if (before != far_nodes_.end()) {
      const auto link = before->second.peer;
      lose(link.get(), false);
      link->close();
    }
  }
  if (join.again && !head_->expects(join.node)) {
    node.peer->respond(request, wire::ClusterJoined{.lost = true});
    return;
  }
  if (!join.again && head_->knows(join.node)) return refuse({ErrorCode::kAlreadyExists, "the node has joined before"});
  if (!join.again) head_->remove_node(join.node);  // it has heard nothing of the head before, which ended just then
  node.id = join.node;
  auto tell_node = [peer = node.peer, request](wire::Message message) {
    if (std::holds_alternative<wire::ClusterJoined>(message)) {
      peer->respond(request, message);
    } else if (!std::holds_alternative<wire::Output>(message) ||
               peer->queued() < kOutputQueuedMax) {  // else it is lost
      peer->send(message);
    }
  };
  if (join.again) {
    head_->return_node(join.node, description, std::move(tell_node));
  } else {
    head_->add_node(join.node, description, std::move(tell_node));
  }
}

void Membership::lose(const net::Peer* peer, bool was_silent) {
  const auto gone = far_nodes_.extract(peer);
  if (!gone.empty() && gone.mapped().id && head_ != nullptr) head_->remove_node(gone.mapped().id, was_silent);
}

// ---- A head elsewhere

async::Async<Result<wire::ClusterJoined>> Membership::ask_to_join(Membership* self, Fd head, bool again,
                                                                  async::Deadline deadline) {
  if (self->head_link_ != nullptr) self->head_link_->close();
  const auto link = self->head_link_ = self->link_to(std::move(head));
  const Machine& machine = self->node_.machine();
  const wire::Beat asked{self->executor_.now()};
  wire::Message ask =
      wire::JoinCluster{self->id_, self->reached_at_, machine.resources.amounts(), machine.labels, again};
  PHAROS_CO_TRY(const net::Parcel answer, co_await link->request(std::move(ask), std::vector<Fd>{}, deadline));
  const auto* const joined = std::get_if<wire::ClusterJoined>(&answer.message);
  if (joined == nullptr) co_return Error{ErrorCode::kInternal, "the head gave an answer that fits no node"};
  self->head_lasts_ = joined->lasts;
  if (!joined->lost) self->node_.pass_on_beat(asked);
  self->tick_later();
  co_return *joined;
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
  // It may have ended since, with more said than the answer.
  if (self->head_link_ == nullptr) self->lose_head(Error{ErrorCode::kUnavailable, "the head has ended"});
  co_return {};
}

void Membership::lose_head(const Error& why) {
  head_link_.reset();
  if (!joined_ || std::exchange(coming_back_, true)) return;
  if (!head_lasts_) return ends_.lost(why);
  background_.spawn(come_back(this, why));
}

async::Async<void> Membership::come_back(Membership* self, Error why) {
  log(LogLevel::kWarn, "the head is gone, and is looked for again",
      {kv("head", self->head_address_), kv("error", why)});
  const TimePoint since = self->executor_.now();
  for (Duration pause = kFirstPause; self->executor_.now() - since < self->away_max_;
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
    // A head has much to do when it starts, on a slow disk perhaps: it is given up with the connection alone.
    const auto patience =
        async::Deadline::after(self->away_max_ - (self->executor_.now() - since), self->executor_.now());
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
    if (self->head_link_ == nullptr) continue;
    self->coming_back_ = false;
    self->node_.note_cluster(*joined);
    self->node_.return_to_head();
    log(LogLevel::kInfo, "the head is back", {kv("head", self->head_address_)});
    co_return;
  }
  self->ends_.lost(why);
}

// ---- Both

std::vector<Membership::FarNode> Membership::far_nodes_in_order() const {
  std::vector<FarNode> nodes;
  for (const auto& [peer, node] : far_nodes_) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end(), [](const FarNode& a, const FarNode& b) { return a.number < b.number; });
  return nodes;
}

void Membership::end_all() {
  for (const FarNode& node : far_nodes_in_order()) {
    if (node.id) node.peer->send(wire::EndNode{});
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
      head_link_->send(wire::Beat{executor_.now()});
      tick_later();
    }
    return;
  }
  for (const FarNode& node : far_nodes_in_order()) {
    if (++far_nodes_.at(node.peer.get()).silent_ticks <= kSilentTicks) continue;
    log(LogLevel::kWarn, "nothing comes from a node, which is given up", {kv("node", node.id)});
    lose(node.peer.get(), true);
    node.peer->close();
  }
  if (!far_nodes_.empty()) tick_later();
}

void Membership::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (head_link_ != nullptr && &from == head_link_.get()) {
    if (std::holds_alternative<wire::EndNode>(parcel.message)) return end_all();
    if (const auto* const beat = std::get_if<wire::Beat>(&parcel.message)) return node_.pass_on_beat(*beat);
    return node_.on_head_message(std::move(parcel.message));
  }
  const auto found = far_nodes_.find(&from);
  if (found == far_nodes_.end()) return;
  FarNode& node = found->second;
  node.silent_ticks = 0;
  if (std::holds_alternative<wire::Beat>(parcel.message)) {
    from.send(parcel.message);
    return;
  }
  const auto* const join = std::get_if<wire::JoinCluster>(&parcel.message);
  if (join != nullptr && request && !node.id) return admit(node, *join, *request);
  if (node.id && head_ != nullptr) head_->on_message(node.id, std::move(parcel.message));
}

void Membership::on_peer_closed(net::Peer& peer, const Error& why) {
  if (head_link_ != nullptr && &peer == head_link_.get()) return lose_head(why);
  const auto node = far_nodes_.find(&peer);
  if (node != far_nodes_.end() && !closing_) {
    log(LogLevel::kWarn, "a node's connection has ended, and it is given up",
        {kv("node", node->second.id), kv("error", why)});
  }
  lose(&peer);
}

void Membership::close() {
  closing_ = true;
  background_.cancel();
  node_.close();
  if (records_ != nullptr) records_->close();
  if (head_link_ != nullptr) head_link_->close();
  for (const FarNode& node : far_nodes_in_order()) node.peer->close();
}

}  // namespace pharos::node
