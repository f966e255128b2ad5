#include "store/node_links.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/base/log.hpp>

namespace pharos::node {
namespace {

constexpr auto kClaimConnectTime = std::chrono::seconds{3};

// Keeps kNotFound, which says that there is no such node any more.
Error not_reached(NodeId node, const Error& why) {
  return {why.code() == ErrorCode::kNotFound ? why.code() : ErrorCode::kUnavailable,
          "node " + to_string(node) + " cannot be reached: " + why.message()};
}

}  // namespace

NodeLinks::NodeLinks(async::Executor& executor, Host& host, NodeId self, Find find, Events events)
    : executor_{executor}, host_{host}, self_{self}, find_{std::move(find)}, events_{std::move(events)} {}

void NodeLinks::close() {
  for (auto& [node, neighbour] : neighbours_) {
    if (neighbour.link != nullptr) neighbour.link->close();
  }
}

// ---- Addresses

async::Async<Result<std::string>> NodeLinks::find_address(NodeId node) {
  if (const auto known = neighbours_.find(node); known != neighbours_.end()) {
    if (!known->second.address.empty()) co_return known->second.address;
  }
  PHAROS_CO_TRY(std::string address, co_await find_(node));
  neighbours_[node].address = address;
  co_return std::move(address);
}

void NodeLinks::ask_anew_where(NodeId node) {
  const auto found = neighbours_.find(node);
  if (found != neighbours_.end() && found->second.link == nullptr) found->second.address.clear();
}

void NodeLinks::forget_if_unused(NodeId node) {
  const auto found = neighbours_.find(node);
  if (found != neighbours_.end() && found->second.link == nullptr && !found->second.connecting) {
    neighbours_.erase(found);
  }
}

// ---- Connections

// The first caller connects. Those that come meanwhile wait for its connection.
async::Async<Result<NodeLinks::Link>> NodeLinks::reach(NodeId node) {
  Neighbour& there = neighbours_[node];
  if (there.link != nullptr) co_return there.link;
  if (std::exchange(there.connecting, true)) {
    async::Completion<Link> connected;
    there.waiting.push_back(connected);
    co_return co_await connected.wait(async::Deadline::after(2 * kClaimConnectTime, executor_.now()));
  }
  auto link = co_await connect(node);
  Neighbour& neighbour = neighbours_[node];
  neighbour.connecting = false;
  if (link) {
    events_.connected(node, *link);
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
  forget_if_unused(node);
  co_return link;
}

async::Async<Result<NodeLinks::Link>> NodeLinks::connect(NodeId node) {
  auto address = co_await find_address(node);
  if (!address && address.error().code() == ErrorCode::kDeadlineExceeded) co_return std::move(address).error();
  if (!address) co_return not_reached(node, address.error());
  const Introduction introduction{.purpose = Introduction::Purpose::kClaims, .caller = self_.value()};
  auto socket =
      co_await host_.reach(*address, introduction, async::Deadline::after(kClaimConnectTime, executor_.now()));
  if (!socket) co_return not_reached(node, socket.error());
  const auto link = host_.make_link(*std::move(socket), net::Descriptors::kRefused);
  auto peer = net::Peer::make(executor_, link, *this);
  neighbours_[node].link = peer;  // before on_peer_closed() can be called for it
  link->start(peer);
  co_return peer;
}

NodeLinks::Link NodeLinks::link_to(NodeId node) const {
  const auto found = neighbours_.find(node);
  return found == neighbours_.end() ? nullptr : found->second.link;
}

void NodeLinks::give_up(NodeId node, net::Peer& link) {
  if (link_to(node).get() != &link) return;
  link.close();
  on_peer_closed(link, Error{ErrorCode::kUnavailable, "the node does not answer"});
}

void NodeLinks::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto sender = std::find_if(neighbours_.begin(), neighbours_.end(),
                                   [&from](const auto& entry) { return entry.second.link.get() == &from; });
  if (sender == neighbours_.end()) return;  // the connection was given up
  if (request && events_.asked(sender->second.link, parcel.message, *request)) return;
  log(LogLevel::kWarn, "a node at which objects are claimed sent a message that it cannot send",
      {kv("message", wire::name_of(parcel.message))});
  if (!request) return;
  from.respond(*request, Error{ErrorCode::kUnsupported, "a node cannot ask for this over a connection for claims"});
}

void NodeLinks::on_peer_closed(net::Peer& peer, const Error&) {
  for (auto& [node, neighbour] : neighbours_) {
    if (neighbour.link.get() != &peer) continue;
    neighbour.link = nullptr;
    return events_.ended(node);
  }
}

}  // namespace pharos::node
