#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/peer.hpp>

#include "node/host.hpp"

namespace pharos::node {

/// The connections from this node to other nodes at which it claims objects, and the addresses of these nodes. Nodes
/// come and go, above all those that belong to one program. So a node that is not used is forgotten.
/// Owned by ImportedObjects, whose coroutines run the coroutines here; on the node's strand. End: close() closes the
/// connections, without a callback; the coroutines have to end before the destructor.
class NodeLinks final : public net::Peer::Owner {
 public:
  /// Returns the address of a node. kNotFound if it is no node of the cluster any more.
  using Find = std::function<async::Async<Result<std::string>>(NodeId node)>;
  using Link = std::shared_ptr<net::Peer>;
  /// Callbacks to the owner, on the strand. `connected` is called before reach() returns.
  struct Events {
    std::function<void(NodeId node, Link link)> connected;
    /// A connection has ended. The owner connects again, or calls forget_if_unused().
    std::function<void(NodeId node)> ended;
    /// The other node asks for something. Returns false if it cannot ask for that.
    std::function<bool(const Link& link, const wire::Message& message, std::uint64_t request)> asked;
  };

  NodeLinks(async::Executor& executor, Host& host, NodeId self, Find find, Events events);

  /// Returns the connection to a node, and connects if there is none. Fails with kNotFound if there is no such node any
  /// more, with kDeadlineExceeded if the head does not say in time where the node is (or another caller has not
  /// connected within 6 s), with kCancelled, and with kUnavailable if the node is not reached within 3 s.
  async::Async<Result<Link>> reach(NodeId node);
  /// Returns the connection to a node. nullptr if there is none.
  Link link_to(NodeId node) const;
  /// Closes a connection over which no answer comes, unless it has ended by itself, and calls Events::ended.
  void give_up(NodeId node, net::Peer& link);

  /// Returns the address of a node, which is kept until the node is forgotten. Fails with the errors of Find.
  async::Async<Result<std::string>> find_address(NodeId node);
  /// Forgets the address of a node, unless there is a connection to the node, which shows that the address is right.
  void ask_anew_where(NodeId node);
  /// Forgets a node that has no connection and gets none at the moment.
  void forget_if_unused(NodeId node);

  void close();

 private:
  struct Neighbour {
    std::string address;
    Link link;  // null while there is no connection
    bool connecting = false;
    std::vector<async::Completion<Link>> waiting;
  };

  async::Async<Result<Link>> connect(NodeId node);

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId self_;
  const Find find_;
  const Events events_;
  std::unordered_map<NodeId, Neighbour> neighbours_;
};

}  // namespace pharos::node
