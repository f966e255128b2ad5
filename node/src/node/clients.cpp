#include "node/clients.hpp"

#include <utility>

namespace pharos::node {

std::shared_ptr<net::Peer> Clients::add(Fd socket, net::Descriptors descriptors) {
  const auto link = host_.make_link(std::move(socket), descriptors);
  auto peer = net::Peer::make(executor_, link, owner_);
  clients_.emplace(peer.get(), Entry{++last_number_, Client{peer}});
  link->start(peer);
  return peer;
}

void Clients::set(Client client) {
  const net::Peer* const peer = client.peer.get();
  clients_[peer].client = std::move(client);
}

std::optional<Client> Clients::take_closed(const net::Peer& peer) {
  const auto found = clients_.extract(&peer);
  if (found.empty()) return std::nullopt;
  if (const auto watched = when_gone_.extract(&peer); !watched.empty()) watched.mapped()();
  return found.mapped().client;
}

void Clients::when_gone(const net::Peer& peer, std::function<void()> then) {
  when_gone_.emplace(&peer, std::move(then));
}

void Clients::close() {
  // The order in which they came is the same in each run of the simulator, unlike that of their addresses.
  std::map<std::uint64_t, std::shared_ptr<net::Peer>> peers;
  for (const auto& [peer, entry] : clients_) peers.emplace(entry.number, entry.client.peer);
  for (const auto& [number, peer] : peers) peer->close();
}

std::optional<Client> Clients::find(const net::Peer& peer) const {
  const auto found = clients_.find(&peer);
  return found == clients_.end() ? std::nullopt : std::optional{found->second.client};
}

std::map<CallerId, Client> Clients::callers() const {
  std::map<CallerId, Client> callers;
  for (const auto& [peer, entry] : clients_) {
    const Client& client = entry.client;
    if (client.job != nullptr && client.caller) callers.emplace(client.caller, client);
  }
  return callers;
}

}  // namespace pharos::node
