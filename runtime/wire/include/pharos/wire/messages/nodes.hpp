#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// Nodes and their head. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Node to head, once for each connection, over TCP. Answered by ClusterJoined, or by Failure if the node cannot join.
struct JoinCluster {
  NodeId node;
  std::string address;  ///< address at which other nodes reach this node; empty if it has no workers
  Amounts amounts;      ///< resources of this node; empty if it runs no workers
  std::map<std::string, std::string> labels{};
  bool again = false;         ///< the node has joined this cluster before
  std::uint64_t session = 0;  ///< the earlier session with the head that the node wants to resume; 0 if none
  std::uint64_t heard = 0;    ///< number of messages of that session that have come from the head
};
/// Head to node.
struct ClusterJoined {
  std::uint32_t cpus = 0;  ///< CPUs of all nodes together
  bool lost = false;       ///< refused: the cluster has given this node up, and it may only join as a new node
  bool lasts = false;      ///< if the head ends, another head will continue its work
  std::uint64_t session = 0;
  bool resumed = false;     ///< the session that the node asked for continues
  std::uint64_t heard = 0;  ///< number of messages of that session that have come from the node
};
/// Node to head. Answered by NodeFound, or by Refused if the node is not part of the cluster any more.
struct FindNode {
  NodeId node;
  std::uint64_t number = 0;  ///< number of the question, which the asking node has chosen
};
/// Head to node.
struct NodeFound {
  std::uint64_t number = 0;  ///< number of the question
  std::string address{};     ///< like ActorAlive::address
};
/// Caller to node, which asks the head. Answered by NodesListed.
struct ListNodes {
  Asker asker{};
};
/// Head to node, and node to caller.
struct NodesListed {
  struct Each {
    NodeId node{};
    std::string address{};  ///< empty for the head's own node
    bool is_silent = false;
    bool drains = false;
    Amounts has{};
    Amounts in_use{};  ///< by actors and tasks
    std::map<std::string, std::string> labels{};
    friend bool operator==(const Each&, const Each&) = default;
  };
  std::vector<Each> nodes{};
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};
/// Node to head, and back; and from the node on to its exclusive actors.
/// A heartbeat. The head sends a node's beat back with the same time. The node then knows that the head was alive at
/// that time.
struct Beat {
  TimePoint sent{};         ///< time by the node's clock, which its workers share
  std::uint64_t heard = 0;  ///< number of messages of the session that the sender of this beat has received
};
/// A command to a node, which ends. Answered by Rows if a user sent it. From the head's node on to all other nodes.
/// Tells a node to end. If the receiver is the head's node, all nodes end.
struct EndNode {};
/// A command to a node, which tells the head. Answered by Rows when the drain has begun. Also head to the node that is
/// to be drained, again and again until the node is empty.
struct DrainNode {
  NodeId node{};
  std::uint32_t limit_ms = 0;  ///< time after which the actors and tasks that are left are killed; 0 for no limit
  std::uint64_t number = 0;    ///< number of the question; the node that passes it on fills this in
};
/// A command to a node, which tells the head. Answered by Rows when the head will not forget it. Then head to all
/// nodes, and to each node that joins. The cluster has a new token.
struct RotateToken {
  std::vector<std::byte> sealed{};  ///< the new token, encrypted with the one before it (net::seal())
  std::uint64_t until = 0;          ///< how long those before it are valid at most, in seconds since 1970
  std::uint64_t number = 0;         ///< number of the question; the node that passes it on fills this in
};
/// Node to head: the answer to DrainNode if no worker runs on the node any more and no other node needs its objects.
struct NodeEmpty {};
/// Head to node.
/// Tells a node how many of its messages to the head are durable. The node need not send these again if a new head
/// starts.
struct Confirmed {
  std::uint64_t count = 0;
};
/// Node to a head that has started again.
/// A node's report of its jobs, actors and leases to a new head. A long report is split into several messages.
struct Report {
  struct Caller {
    CallerId caller;
    JobId job;
    friend bool operator==(const Caller&, const Caller&) = default;
  };
  struct Hold {
    CallerId caller;
    ActorId actor;
    std::int64_t count = 0;
    friend bool operator==(const Hold&, const Hold&) = default;
  };
  struct Incarnation {
    ActorId actor;
    std::uint32_t incarnation = 0;
    bool constructed = false;
    friend bool operator==(const Incarnation&, const Incarnation&) = default;
  };
  struct Bundle {
    GroupId group;
    std::uint32_t bundle = 0;
    friend bool operator==(const Bundle&, const Bundle&) = default;
  };
  /// A lease of one of this node's workers by a caller of another node.
  struct Lease {
    WorkerId worker;
    CallerId caller;
    JobId job;
    friend bool operator==(const Lease&, const Lease&) = default;
  };
  std::vector<JobId> jobs{};  ///< all jobs that the node knows
  std::vector<Caller> callers{};
  std::vector<Hold> holds{};
  std::vector<Incarnation> incarnations{};
  std::vector<Bundle> bundles{};  ///< bundles that the node has reserved or will reserve
  std::vector<Bundle> unheld{};   ///< the bundles among these whose resources tasks still use
  std::vector<Lease> lent{};
  std::vector<WorkerId> borrowed{};  ///< workers of other nodes that callers of this node lease
  bool more = false;                 ///< another part of the report follows
};

}  // namespace pharos::wire
