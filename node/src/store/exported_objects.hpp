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

#include "node/host.hpp"
#include "store/imported_objects.hpp"
#include "store/node_store.hpp"

namespace pharos::node {

/// Objects of this node that processes of other nodes use. Each of these nodes claims the objects that its processes
/// use, and this node holds a pin for each claim. When the connection of a node breaks, its claims stay until the head
/// says that the node is lost or ImportedObjects::kAwayTime has passed. Then all of them are released.
/// Also serves pulls: of this node's objects, of complete objects that this node has imported, and of the chunks that
/// are here of an object that is still being imported. A node that wants an object which another node is pulling
/// already is sent on to that node, so the pulls form a chain.
///
/// Owned by StoreService. Everything is on the node's strand. End: close() closes the connections; the claims stay
/// until the store ends. Timers, pulls under way and their `done` use this object: the executor has to stop before the
/// destructor.
class ExportedObjects final : public net::Peer::Owner {
 public:
  using Location = object_store::Location;
  /// Brings an object of this node to memory, and then calls `then`. The object is pinned to be read.
  using Bring = std::function<void(const Location& here, async::UniqueFunction<void(Result<void>)> then)>;

  ExportedObjects(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store, NodePins pins,
                  ImportedObjects& imports, Bring bring);

  /// Takes the connection over which another node will claim objects. It replaces an earlier connection of that node.
  /// If there is no pin table left for the node, only closes the connection. A claim fails with kOwnerDied or
  /// kObjectLost if the object is gone, and with kExhausted if that node has too many; an object that was imported here
  /// is answered with the node that has it.
  void add_neighbour(NodeId node, Fd socket);
  /// Answers a pull: `then` gets chunks, the node to ask instead, or an error: kOwnerDied or kObjectLost if the object
  /// is gone, kUnavailable if this node has not imported it, or why it cannot be brought to memory. `then` runs inside
  /// this call, or later if the object has to be brought to memory. A pin keeps the object until PullAnswer::done has
  /// run.
  void answer_pull(const object_store::PullRequest& request, Host::TakePullAnswer then);

  /// The number of claims of all other nodes.
  std::size_t claims() const;
  /// Returns whether an object is being sent to another node.
  bool sends() const { return !chains_.empty(); }
  /// An object, and the nodes that claim it.
  struct Claimed {
    Location object;
    std::uint64_t bytes = 0;
    std::vector<NodeId> nodes{};
  };
  std::vector<Claimed> claimed() const;
  /// Returns the connection over which a node claims objects. nullptr if there is none.
  std::shared_ptr<net::Peer> link_to(NodeId node) const;
  /// Another node has the object now, and `node` claims it there, or is that node: its claim here ends. Whoever claims
  /// the object here from now on is told the new place.
  void note_moved(NodeId node, const ObjectId& id, const Location& to);
  /// The node says that nothing there needs the object: its claim ends.
  void end_claim(NodeId node, const ObjectId& id);
  /// Where the object has moved to. nullptr if it has not moved.
  const Location* moved_to(const ObjectId& id) const;
  /// A node could not claim the object at its new place, so the object has to move once more.
  void forget_move(const ObjectId& id) { moved_.erase(id); }
  /// Nodes that claim objects here, also those whose connection is broken and that may come back.
  std::vector<NodeId> neighbours() const;
  /// The number of pin tables that are in use here: one for each neighbour, and one for objects that are being sent.
  std::size_t tables() const { return neighbours_.size() + 1; }
  void close();

 private:
  struct Claim {
    Location object;
    std::uint32_t pin;
    std::uint64_t connection;  // number of the connection over which it was made, or made again
  };
  struct Neighbour {
    std::shared_ptr<net::Peer> link;  // null: the connection is broken, and the node may come back
    std::uint64_t connection = 0;     // number of its latest connection, counted from 1
    NodePins pins;
    std::map<ObjectId, Claim> claims{};
  };
  /// The nodes that pull one object: from here, or one from the other.
  struct Chain {
    std::size_t served = 0;  // pulls that this node serves
    NodeId last;             // the node to which the next one is sent on
  };

  Result<wire::ObjectClaimed> claim(Neighbour& neighbour, const Location& object);
  static void release(Neighbour& neighbour, const ObjectId& id);
  bool is_away(NodeId node, std::uint64_t connection) const;
  void drop_if_lost(NodeId node, std::uint64_t connection, TimePoint until);
  void drop(NodeId node);
  Result<Host::PullAnswer> whole(const object_store::PullRequest& request, const NodePins::Pin& pin);
  void note_begun(const object_store::PullRequest& request);
  void note_ended(const object_store::PullRequest& request);

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId self_;
  const std::shared_ptr<NodeStore> store_;
  NodePins pins_;  // on objects that are being sent
  ImportedObjects& imports_;
  const Bring bring_;
  std::map<NodeId, Neighbour> neighbours_;
  std::map<ObjectId, Chain> chains_;
  std::map<ObjectId, Location> moved_;  // objects that other nodes have now, because this one drains
};

}  // namespace pharos::node
