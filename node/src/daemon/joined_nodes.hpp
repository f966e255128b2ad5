#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <pharos/async/executor.hpp>
#include <pharos/net/peer.hpp>

#include "head/head.hpp"
#include "head/silence.hpp"
#include "link/session.hpp"
#include "node/host.hpp"

namespace pharos::node {

/// The other nodes that have joined the head of this process. Carries the messages between them and the head, and
/// notices when one of them is gone:
/// - A node is lost when its connection ends because its process has ended, or when nothing has come from it for too
///   long (Silence). If nothing comes from any other machine, this machine's own link is suspected, and no node on
///   another machine is lost for now; the head is told that these nodes are away.
/// - If a connection ends after five seconds of silence, the network has ended it. The node may come back until it is
///   lost. Then both ends continue their session and send again what the other end has not heard (Session). The head
///   does not hear of the break.
/// Messages from connections that have not joined are ignored. Output of workers is dropped while more than 16 MiB wait
/// to be sent to a node.
/// Owned by Membership; on its strand. The Host outlives it. End: close() closes all connections; the head does not
/// hear of that. A timer that is still set does nothing after the destructor.
class JoinedNodes final : public net::Peer::Owner {
 public:
  /// Returns the head, or the reason why no node can join here.
  using FindHead = std::function<Result<Head*>()>;

  JoinedNodes(async::Executor& executor, Host& host, FindHead find_head);

  /// Takes the connection of a node that wants to join (Introduction::Purpose::kJoin). If the node cannot join, its
  /// request is refused: with the error of FindHead, kInvalidArgument for its resources or labels, or kAlreadyExists if
  /// a node of this id has joined. A node that the head has given up hears so.
  void add(Fd socket);
  /// Tells every node to end. A node whose connection has ended hears it if it comes back.
  void end_all();
  /// Closes all connections and forgets the nodes: another head will start, to which they return. Messages on their way
  /// are lost.
  void forget_all();
  void close();

 private:
  using Number = Silence::Number;
  struct FarNode {
    std::shared_ptr<net::Peer> peer;     // null: the connection has ended, and the node may come back
    std::string machine;                 // the machine that it is on; empty: the head's own
    NodeId id;                           // unset until it has joined
    std::shared_ptr<Session> session{};  // null until it has joined
    bool away = false;                   // this machine's link is suspected, and nothing has come from the node since
    TimePoint quiet_until{};             // if the connection ends before this time, a silence has ended it
  };

  void admit(Number number, const wire::JoinCluster& join, std::uint64_t request);
  Result<void> take_in(Number number, const wire::JoinCluster& join, std::uint64_t request);
  bool resume(Head& head, Number number, const wire::JoinCluster& join, std::uint64_t request);
  std::optional<Number> number_of(NodeId node) const;
  void lose(Number number, bool was_silent);
  void note_heard(Number number);
  void suspect_own_link();
  void tick_later();
  void tick();
  Head* head() const;
  void close_links();

  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;

  async::Executor& executor_;
  Host& host_;
  const FindHead find_head_;
  std::map<Number, FarNode> nodes_;             // in the order in which they came
  std::unordered_map<NodeId, Number> numbers_;  // of those that have joined
  std::unordered_map<const net::Peer*, Number> links_;
  Silence silence_;  // how long the nodes have been silent
  Number last_number_ = 0;
  bool ticks_ = false;
  bool closing_ = false;
  const std::shared_ptr<void> life_ = std::make_shared<char>();  // expires with this object
};

}  // namespace pharos::node
