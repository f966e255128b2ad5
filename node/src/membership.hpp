#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/peer.hpp>

#include "head.hpp"
#include "host.hpp"
#include "node.hpp"

namespace pharos::node {

/// A node's place in its cluster: beside the head, which other nodes join here; or joined to a head elsewhere. Carries
/// what head and nodes tell each other.
/// Owned by the daemon. Everything runs on one strand.
/// End: close(), then whatever is posted runs until closed().
class Membership final : public net::Peer::Owner {
 public:
  /// Beside its head, unless the settings name one elsewhere. `when_lost` runs when that is gone.
  Membership(async::Executor& executor, Host& host, const Node::Settings& settings,
             std::function<void(const Error& why)> when_lost);

  Node& node() { return node_; }
  /// Null: it is elsewhere.
  const Head* head() const { return head_.get(); }

  /// Joins the head at the other end, which has been told that this is what the connection is for. `reached_at`: where
  /// other nodes reach this one.
  static async::Async<Result<void>> join(Membership* self, Fd head, std::string reached_at, async::Deadline deadline);
  /// Of a node that has said that it joins.
  void add_node(Fd socket);
  /// Of a driver that has proved itself. Its node knows it once it has joined; kWaitingMax may wait for that.
  void add_driver(Fd socket);

  void close();
  bool closed() const { return node_.closed(); }

  /// For tests, as of Node and Head.
  std::string leftovers() const { return node_.leftovers() + (head_ == nullptr ? "" : head_->leftovers()); }

 private:
  static constexpr std::size_t kWaitingMax = 64;
  struct FarNode {
    std::shared_ptr<net::Peer> peer;
    NodeId id;  // none until it has joined
  };

  std::shared_ptr<net::Peer> link_to(Fd socket);
  void tell_head(wire::Message message);
  void admit(FarNode& node, const wire::JoinCluster& join, std::uint64_t request);
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const NodeId id_;
  const std::string head_address_;
  const std::function<void(const Error& why)> when_lost_;
  std::unique_ptr<Head> head_;            // null: it is elsewhere
  std::shared_ptr<net::Peer> head_link_;  // null: it is here, or not joined
  bool joined_ = false;
  std::vector<Fd> waiting_;  // drivers
  Node node_;
  std::unordered_map<const net::Peer*, FarNode> far_nodes_;
};

}  // namespace pharos::node
