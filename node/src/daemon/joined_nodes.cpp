#include "daemon/joined_nodes.hpp"

#include <chrono>
#include <utility>
#include <variant>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>
#include <pharos/scheduler/labels.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kTickTime = 1s;
// If a connection ends after so much silence, the network has ended it, and not the process at its other end.
constexpr std::uint32_t kQuietTicks = 5;
// A connection that outlived a silence may still end because of it: TCP gives up late, or the other end has given up
// before.
constexpr Duration kAfterQuiet = 5s;
constexpr std::size_t kQueuedToNodeMax = std::size_t{16} << 20;  // to a node; more output is dropped

}  // namespace

JoinedNodes::JoinedNodes(async::Executor& executor, Host& host, FindHead find_head)
    : executor_{executor}, host_{host}, find_head_{std::move(find_head)} {}

Head* JoinedNodes::head() const {
  auto found = find_head_();
  return found ? *found : nullptr;
}

void JoinedNodes::add(Fd socket) {
  std::string machine = host_.machine_of(socket.get());
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kRefused);
  const auto peer = net::Peer::make(executor_, link, *this);
  link->start(peer);
  const Number number = ++last_number_;
  nodes_.emplace(number, FarNode{.peer = peer, .machine = std::move(machine), .id = {}});
  links_.emplace(peer.get(), number);
  silence_.add(number, "", executor_.now());  // as on this machine until it has joined
  tick_later();
}

std::optional<JoinedNodes::Number> JoinedNodes::number_of(NodeId id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? std::nullopt : std::optional{found->second};
}

// ---- Joining

void JoinedNodes::admit(Number number, const wire::JoinCluster& join, std::uint64_t request) {
  if (auto taken = take_in(number, join, request); !taken) {
    nodes_.at(number).peer->respond(request, std::move(taken).error());
  }
}

/// Takes in a node that joins, and answers it. Fails if the node cannot join.
Result<void> JoinedNodes::take_in(Number number, const wire::JoinCluster& join, std::uint64_t request) {
  PHAROS_TRY(Head* const here, find_head_());
  PHAROS_TRY(const auto total, scheduler::Resources::checked(join.amounts));
  PHAROS_TRY_VOID(scheduler::check_labels(join.labels));
  if (join.again) {
    if (resume(*here, number, join, request)) return {};
    // The session cannot go on, so the node on its earlier connection is lost.
    if (const auto before = number_of(join.node)) {
      const auto link = nodes_.at(*before).peer;
      lose(*before, false);
      if (link != nullptr) link->close();
    }
  }
  FarNode& node = nodes_.at(number);
  if (join.again && !here->expects(join.node)) {
    node.peer->respond(request, wire::ClusterJoined{.lost = true});
    return {};
  }
  if (!join.again && here->knows(join.node)) return Error{ErrorCode::kAlreadyExists, "the node has joined before"};
  if (!join.again) here->remove_node(join.node);  // its first join was recorded by a head that ended before the answer
  node.id = join.node;
  numbers_.emplace(node.id, number);
  node.session = std::make_shared<Session>(random_u64());
  node.session->begin(node.peer);
  silence_.add(number, node.machine, executor_.now());
  note_heard(number);
  auto tell_node = [session = node.session, peer = node.peer, request](wire::Message message) {
    if (auto* const joined = std::get_if<wire::ClusterJoined>(&message)) {
      joined->session = session->number();
      peer->respond(request, message);
    } else if (Session::belongs(message)) {
      session->send(std::move(message));
    } else if (const auto& link = session->link(); link != nullptr && link->queued() < kQueuedToNodeMax) {
      link->send(message);  // else the output is dropped
    }
  };
  const Head::NodeDescription description{.address = join.address, .total = total, .labels = join.labels};
  if (join.again) {
    here->return_node(join.node, description, std::move(tell_node));
  } else {
    here->add_node(join.node, description, std::move(tell_node));
  }
  return {};
}

/// Continues the session of a node that has come back. Returns false if the node has no session with this head that can
/// go on. A node that has not reported everything has to report again.
bool JoinedNodes::resume(Head& head, Number number, const wire::JoinCluster& join, std::uint64_t request) {
  const auto before = number_of(join.node);
  if (!before || head.awaits_report_of(join.node)) return false;
  FarNode& node = nodes_.at(*before);
  if (node.session->number() != join.session || !node.session->can_resume(join.heard)) return false;
  if (node.peer != nullptr) {
    links_.erase(node.peer.get());
    node.peer->close();
  }
  node.peer = nodes_.extract(number).mapped().peer;
  silence_.remove(number);
  links_[node.peer.get()] = *before;
  log(LogLevel::kInfo, "a node whose connection had ended is back", {kv("node", node.id)});
  node.peer->respond(request,
                     wire::ClusterJoined{.session = join.session, .resumed = true, .heard = node.session->received()});
  node.session->resume(node.peer, join.heard);
  note_heard(*before);
  return true;
}

// ---- Silence

void JoinedNodes::note_heard(Number number) {
  const bool was_quiet = silence_.ticks_of(number) >= kQuietTicks;
  if (silence_.heard(number, executor_.now()) == Silence::Change::kSuspicionEnds) {
    log(LogLevel::kWarn, "another machine is heard again: the link of this machine was down");
  }
  FarNode& node = nodes_.at(number);
  if (was_quiet) node.quiet_until = executor_.now() + kAfterQuiet;
  if (!std::exchange(node.away, false)) return;
  if (Head* const here = head()) here->node_is_back(node.id);
}

void JoinedNodes::suspect_own_link() {
  log(LogLevel::kWarn,
      "no message comes from any other machine: perhaps the link of this machine is down; nodes may come back",
      {kv("seconds", Silence::kSuspicionTicksMax)});
  for (auto& [number, node] : nodes_) {
    if (!silence_.is_elsewhere(number)) continue;
    node.away = true;
    if (Head* const here = head()) here->node_is_away(node.id);
  }
}

void JoinedNodes::lose(Number number, bool was_silent) {
  const auto gone = nodes_.extract(number);
  if (gone.empty()) return;
  silence_.remove(number);
  const FarNode& node = gone.mapped();
  if (node.peer != nullptr) links_.erase(node.peer.get());
  if (!node.id) return;
  numbers_.erase(node.id);
  if (Head* const here = head()) here->remove_node(node.id, was_silent);
}

void JoinedNodes::tick_later() {
  if (std::exchange(ticks_, true)) return;
  executor_.run_at(executor_.now() + kTickTime, [this, life = std::weak_ptr<void>{life_}] {
    if (life.expired()) return;
    ticks_ = false;
    tick();
  });
}

void JoinedNodes::tick() {
  if (closing_) return;
  const Silence::Tick ticked = silence_.tick();
  if (ticked.change == Silence::Change::kSuspicionBegins) suspect_own_link();
  for (const Number number : ticked.lost) {
    const auto link = nodes_.at(number).peer;
    log(LogLevel::kWarn, "a node has sent nothing for too long, and is given up", {kv("node", nodes_.at(number).id)});
    lose(number, true);
    if (link != nullptr) link->close();
  }
  if (!nodes_.empty()) tick_later();
}

// ---- Messages

void JoinedNodes::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto found = links_.find(&from);
  if (found == links_.end()) return;
  const Number number = found->second;
  note_heard(number);
  const FarNode& node = nodes_.at(number);
  if (const auto* const beat = std::get_if<wire::Beat>(&parcel.message)) {
    if (node.session != nullptr) node.session->confirm(beat->heard);
    from.send(wire::Beat{beat->sent, node.session == nullptr ? 0 : node.session->received()});
    return;
  }
  const auto* const join = std::get_if<wire::JoinCluster>(&parcel.message);
  if (join != nullptr && request && !node.id) return admit(number, *join, *request);
  if (!node.id) return;
  if (Session::belongs(parcel.message)) node.session->note_received();
  if (Head* const here = head()) here->on_message(node.id, std::move(parcel.message));
}

void JoinedNodes::on_peer_closed(net::Peer& peer, const Error& why) {
  const auto found = links_.find(&peer);
  if (found == links_.end()) return;
  const Number number = found->second;
  FarNode& node = nodes_.at(number);
  const bool suspects = node.away || (silence_.suspects_own_link() && silence_.is_elsewhere(number));
  const bool by_network = suspects || silence_.ticks_of(number) >= kQuietTicks || executor_.now() < node.quiet_until;
  if (node.session != nullptr && by_network && !closing_) {
    log(LogLevel::kInfo, "the connection of a silent node has ended; the node may come back",
        {kv("node", node.id), kv("error", why)});
    links_.erase(found);
    node.session->pause();
    node.peer.reset();
    return;
  }
  if (!closing_) {
    log(LogLevel::kWarn, "a node's connection has ended, and it is given up", {kv("node", node.id), kv("error", why)});
  }
  lose(number, false);
}

void JoinedNodes::end_all() {
  for (const auto& [number, node] : nodes_) {
    if (node.session != nullptr) node.session->send(wire::EndNode{});
  }
}

void JoinedNodes::forget_all() {
  close_links();
  nodes_.clear();
  numbers_.clear();
  links_.clear();
  silence_ = Silence{};
}

void JoinedNodes::close_links() {
  for (const auto& [number, node] : nodes_) {
    if (node.peer != nullptr) node.peer->close();
  }
}

void JoinedNodes::close() {
  closing_ = true;
  close_links();
}

}  // namespace pharos::node
