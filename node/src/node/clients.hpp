#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include <pharos/async/executor.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/peer.hpp>

#include "node/client.hpp"
#include "node/host.hpp"

namespace pharos::node {

/// The connections of a node with processes of this machine, and with users and nodes that ask something.
/// Owned by Node, which is also `owner`; on its strand. End: close(), then `owner` hears nothing more, and requests
/// under way fail with kUnavailable. The destructor closes nothing.
class Clients {
 public:
  /// `owner` is told what comes over the connections, and of their ends.
  Clients(async::Executor& executor, Host& host, net::Peer::Owner& owner)
      : executor_{executor}, host_{host}, owner_{owner} {}

  /// Takes a connection whose other end has proved itself. Nothing else is known of it yet. `descriptors` says whether
  /// messages may bring descriptors.
  std::shared_ptr<net::Peer> add(Fd socket, net::Descriptors descriptors);
  /// Says what a connection is for. The connection must still be here: set() would keep an ended connection for ever.
  void set(Client client);
  /// Forgets a connection that this node closes. The caller closes the Peer. What when_gone() has set does not run.
  void erase(const net::Peer& peer) {
    clients_.erase(&peer);
    when_gone_.erase(&peer);
  }
  /// Forgets a connection that has ended, and runs what when_gone() has set for it. nullopt: it was forgotten before.
  std::optional<Client> take_closed(const net::Peer& peer);
  /// Sets a callback that runs when this connection, which must still be here, has ended. A second one is ignored.
  void when_gone(const net::Peer& peer, std::function<void()> then);
  /// Closes all connections, in the order in which they came. The connections stay in this table, and what when_gone()
  /// has set does not run.
  void close();

  /// nullopt if the connection was taken by take_closed(), or was forgotten.
  std::optional<Client> find(const net::Peer& peer) const;
  bool contains(const net::Peer& peer) const { return clients_.contains(&peer); }
  /// The drivers and workers, in the order of their ids.
  std::map<CallerId, Client> callers() const;
  std::size_t size() const { return clients_.size(); }

 private:
  struct Entry {
    std::uint64_t number = 0;  // larger than those of earlier connections
    Client client{};
  };

  async::Executor& executor_;
  Host& host_;
  net::Peer::Owner& owner_;
  std::unordered_map<const net::Peer*, Entry> clients_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<const net::Peer*, std::function<void()>> when_gone_;
};

}  // namespace pharos::node
