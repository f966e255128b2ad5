#include "node/clients.hpp"

#include <utility>

namespace pharos::node {

std::shared_ptr<net::Peer> Clients::add(Fd socket, net::Descriptors descriptors) {
  const auto link = host_.make_link(std::move(socket), descriptors);
  auto peer = net::Peer::make(executor_, link, owner_);
  clients_.emplace(peer.get(), Client{peer});
  link->start(peer);
  return peer;
}

void Clients::set(Client client) {
  const net::Peer* const peer = client.peer.get();
  clients_.insert_or_assign(peer, std::move(client));
}

std::optional<Client> Clients::take_closed(const net::Peer& peer) {
  const auto found = clients_.extract(&peer);
  if (found.empty()) return std::nullopt;
  if (const auto watched = when_gone_.extract(&peer); !watched.empty()) watched.mapped()();
  return found.mapped();
}

void Clients::when_gone(const net::Peer& peer, std::function<void()> then) {
  when_gone_.emplace(&peer, std::move(then));
}

void Clients::close() {
  // Peers are closed in an order that is the same in each run of the simulator, unlike that of their addresses.
  std::multimap<std::pair<JobId, CallerId>, std::shared_ptr<net::Peer>> peers;
  for (const auto& [peer, client] : clients_) {
    peers.emplace(std::pair{client.job == nullptr ? JobId{} : client.job->id, client.caller}, client.peer);
  }
  for (const auto& [whose, peer] : peers) peer->close();
}

std::optional<Client> Clients::find(const net::Peer& peer) const {
  const auto found = clients_.find(&peer);
  return found == clients_.end() ? std::nullopt : std::optional{found->second};
}

std::map<CallerId, Client> Clients::callers() const {
  std::map<CallerId, Client> callers;
  for (const auto& [peer, client] : clients_) {
    if (client.job != nullptr && client.caller) callers.emplace(client.caller, client);
  }
  return callers;
}

}  // namespace pharos::node
