#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/net/peer.hpp>

#include "host.hpp"
#include "imports.hpp"
#include "node_store.hpp"

namespace pharos::node {

/// Objects of this node in which processes of other nodes have a share: each such node claims them, and this one has
/// pins for it. When a node's connection breaks it may come back until the head says that it is lost, or
/// Imports::kAwayTime has passed; then it is as if it had released all.
/// Also serves pulls, of those and of what this node has imported itself: complete objects, and chunks of such as are
/// on their way. Who pulls what another node pulls already is sent on to that one, so that they form a chain.
///
/// Owned by StoreService; on the node's strand. End: close().
class Exports final : public net::Peer::Owner {
 public:
  using Location = object_store::Location;
  /// Brings an object of this node to memory, which is pinned to be read.
  using Bring = std::function<void(const Location& here, async::UniqueFunction<void(Result<void>)> then)>;

  Exports(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store, NodePins pins,
          Imports& imports, Bring bring);

  /// Another node will claim objects here.
  void add_neighbour(NodeId node, Fd socket);
  void offer(const object_store::Wish& wish, Host::TakeOffer then);

  /// Of other nodes.
  std::size_t claims() const;
  std::vector<NodeId> neighbours() const;
  std::size_t tables() const { return neighbours_.size() + 1; }
  void close();

 private:
  struct Claim {
    std::uint32_t pin;
    std::uint64_t connection;  // by which it was made, or made again
  };
  struct Neighbour {
    std::shared_ptr<net::Peer> link;  // null: it may come back
    std::uint64_t connection = 0;     // how manieth
    NodePins pins;
    std::map<ObjectId, Claim> claims{};
  };
  /// Those that pull an object from here, or one after the other from each other.
  struct Chain {
    std::size_t served = 0;  // from here
    NodeId last;
  };

  Result<wire::ObjectClaimed> claim(Neighbour& neighbour, const Location& object);
  static void release(Neighbour& neighbour, const ObjectId& id);
  bool is_away(NodeId node, std::uint64_t connection) const;
  void drop_if_lost(NodeId node, std::uint64_t connection, TimePoint until);
  void drop(NodeId node);
  Result<Host::Offer> whole(const object_store::Wish& wish, const NodePins::Pin& pin);
  void note_begun(const object_store::Wish& wish);
  void note_ended(const object_store::Wish& wish);

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId self_;
  const std::shared_ptr<NodeStore> store_;
  NodePins pins_;  // of what is being sent
  Imports& imports_;
  const Bring bring_;
  std::map<NodeId, Neighbour> neighbours_;
  std::map<ObjectId, Chain> chains_;
};

}  // namespace pharos::node
