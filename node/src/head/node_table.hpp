#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

#include "head/events.hpp"
#include "head/recovery.hpp"
#include "head/rotations.hpp"

namespace pharos::node::head {

/// The nodes that are connected with the head: where other nodes reach them, which of them are silent, and which of
/// their messages are durable. Answers nodes that look for other nodes.
/// Owned by Head; on its strand. Pointers and references that it returns are valid until the node is removed. Bound:
/// kAsksMax questions wait for silent nodes; the next one is answered at once.
class NodeTable {
 public:
  static constexpr std::size_t kAsksMax = 65536;

  struct Node {
    std::string address;          ///< empty for the node in the head's own process
    std::uint64_t said = 0;       ///< messages that came from the node and that it would repeat to another head
    std::uint64_t confirmed = 0;  ///< how many of those messages the node knows to be durable
    std::vector<wire::WaitingTasks> waiting{};
  };

  /// `own`: the node in the head's own process; unset if there is none.
  NodeTable(Events& events, const Recovery& recovery, NodeId own = {})
      : events_{events}, recovery_{recovery}, own_{own}, rotations_{events} {}
  NodeId own() const { return own_; }

  /// A user gives the cluster a new token, which all nodes are told. Answers the user.
  void rotate_token(NodeId from, wire::RotateToken rotated);
  Rotations& rotations() { return rotations_; }
  const Rotations& rotations() const { return rotations_; }

  /// The node must not be connected. It is told the last new tokens of the cluster.
  void add(NodeId node, std::string address, Events::Tell tell);
  /// Removes the node; messages that are still to be sent to it are dropped. Returns its address; nullopt if the node
  /// is not connected.
  std::optional<std::string> remove(NodeId node);
  bool contains(NodeId node) const { return nodes_.contains(node); }
  /// Returns nullptr if the node is not connected.
  const Node* find(NodeId node) const;
  const std::unordered_map<NodeId, Node>& all() const { return nodes_; }
  /// Returns where other nodes reach the node, which must be connected or expected.
  const std::string& address_of(NodeId node) const;

  /// A message has come that the node would repeat to another head. About 100 ms later, when the message is durable,
  /// the node is told that it need not.
  void note_said(NodeId node);
  void note_waiting(NodeId node, std::vector<wire::WaitingTasks> waiting);

  /// Nothing comes from the node. Questions where it is wait from now on.
  void begin_silence(NodeId node) { silent_.insert(node); }
  /// The node is heard again, or is lost: the questions that wait for it are answered. Returns whether it was silent.
  bool end_silence(NodeId node);
  bool is_silent(NodeId node) const { return silent_.contains(node); }
  std::size_t silent() const { return silent_.size(); }

  /// Answers where a node is, or refuses with kNotFound if it is not part of the cluster. A question about a silent
  /// node waits until that node is heard again or lost.
  void find_for(NodeId from, const wire::FindNode& find);
  /// The number of questions that wait for silent nodes.
  std::size_t asks() const { return asks_.size(); }

 private:
  Events& events_;
  const Recovery& recovery_;
  const NodeId own_;
  Rotations rotations_;
  std::unordered_map<NodeId, Node> nodes_;
  std::set<NodeId> silent_;
  // Questions for silent nodes, by the node that is looked for: the asking node and its question.
  std::multimap<NodeId, std::pair<NodeId, wire::FindNode>> asks_;
};

}  // namespace pharos::node::head
