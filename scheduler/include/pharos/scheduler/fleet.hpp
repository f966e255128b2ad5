#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/labels.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::scheduler {

/// The resources and labels that an actor, a task or a bundle asks of one node.
struct Demand {
  Resources amounts;
  NodeId only{};                    ///< if set, this node and no other
  std::vector<LabelRule> labels{};  ///< the node's labels must fulfil all of these
  GroupId group{};                  ///< if set, a task asks for it in a bundle of this group

  /// "2 GPUs on a node with zone=a".
  std::string to_string() const;
  std::string labels_to_string() const;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};

/// A preference among the nodes that have room.
struct Preference {
  /// Preferred before all others, for example because large arguments are in this node's memory.
  NodeId near{};
  /// The node of the caller. It is preferred as long as it is not half full.
  NodeId asked_at{};
  /// True: the node with the lowest use is preferred. False: nodes are filled to one half first, one after the other.
  bool spread = false;
  /// Nodes whose labels fulfil all of the first rules are preferred to those that fulfil the second ones, and so on;
  /// all of these are preferred to other nodes than `near`.
  std::vector<std::vector<LabelRule>> labels{};
};

/// The nodes of a cluster: the resources of each, how much of them is taken, and how much is set aside for requests
/// that wait. Finds a node for a demand without examining all nodes, unless hardly any node has room. Demands without
/// GPUs go to nodes with GPUs only if no other node has room.
/// Owned by Head, shared by Placement and TaskNodes, and used on the head's strand. Pointers to nodes are valid until
/// remove() is called for that node. Nodes that are passed in must be nodes of this Fleet.
class Fleet {
 public:
  /// One node. Only Fleet changes it.
  struct Node {
    NodeId id;
    std::uint32_t index = 0;  // in the order in which nodes were added
    Labels labels;
    ResourceLedger ledger;
    Resources tasks{};  // given to tasks, as the node said last
    // Actors outside of groups, bundles of groups, and leases that callers of other nodes have.
    int users = 0;
    // Amounts that are set aside for requests that wait, by the number of the request.
    std::map<std::uint64_t, Resources> claims{};
    Resources set_aside{};  // the sum of the claims
    bool closed = false;    // true: nothing new is placed on the node
    // The share in use of the scarcest resource; users that hold nothing do not count.
    double use = 0;
    double crowd = 0;  // users per CPU: decides between nodes of equal use
    bool has_gpus() const { return ledger.total().gpus() > 0; }
    /// Returns what is left after the claims whose number is below `number`.
    Resources room_before(std::uint64_t number) const;
  };
  static constexpr std::uint64_t kAllClaims = ~std::uint64_t{0};

  /// A node of the same id is removed first.
  Node& add(NodeId id, const Resources& total, Labels labels);
  /// Forgets the node, all that was taken from it and all claims. Has no effect for an unknown node.
  void remove(NodeId id);
  Node* find(NodeId id);
  const Node* find(NodeId id) const;
  bool empty() const { return nodes_.empty(); }

  /// Takes the amounts from the node, on which they must fit: see ResourceLedger::take(). Also for closed nodes.
  Allotment take(Node& node, const Resources& amounts);
  /// Takes the allotment even if it does not fit. The node must have the allotment's GPUs.
  void take(Node& node, const Allotment& allotment);
  /// Gives back an allotment that was taken. This is not checked.
  void give_back(Node& node, const Allotment& allotment);
  void take_user(Node& node, int more);
  void set_tasks(Node& node, Resources tasks);
  /// The node must have no claim of this number.
  void claim(Node& node, std::uint64_t number, const Resources& amounts);
  /// Has no effect if there is no such claim.
  void unclaim(Node& node, std::uint64_t number);
  /// Gives the claim of one number, which must exist, to another number, which must have no claim.
  static void pass_claim(Node& node, std::uint64_t number, std::uint64_t to);
  void close(Node& node);
  void open(Node& node);

  /// Returns whether the demand would fit if nothing were taken. Always false for a closed node.
  static bool could_fit(const Node& node, const Demand& demand);
  bool could_fit(const Demand& demand) const;
  /// Returns whether the demand fits, in addition to all that is taken and set aside.
  static bool fits(const Node& node, const Demand& demand);
  /// Returns a node on which the demand fits; nullptr if no node has room.
  Node* choose(const Demand& demand, const Preference& preference);
  /// Returns a node on which the demand fits beside the node's tasks; nullptr if none has room. The result is `near` if
  /// possible, else the node with the lowest use, and never `except`. Nodes other than `near` on which some resource is
  /// fully in use are not considered.
  Node* find_room(const Demand& demand, NodeId near, NodeId except);
  /// Returns the node of lowest use on which the demand could fit if nothing were taken; nullptr if it could fit on no
  /// node.
  Node* choose_to_wait_for(const Demand& demand);
  /// Returns the nodes that are not closed, those without GPUs first, each kind from the lowest use to the highest.
  std::vector<Node*> by_use() const;

  const Resources& total() const { return total_; }
  const Resources& left() const { return left_; }
  /// All nodes, from the oldest to the newest.
  std::vector<const Node*> all() const;
  /// Makes the error for a demand that fits on no node: kInvalidArgument. The message compares the demand with the node
  /// that lacks the least of it.
  Error too_much(const std::string& who, const Demand& demand) const;

 private:
  struct LessFill {
    bool operator()(const Node* a, const Node* b) const;
  };
  struct LessUse {
    bool operator()(const Node* a, const Node* b) const;
  };
  /// Two orders of the open nodes.
  struct Orders {
    // Nodes less than half full come first, the oldest first; then the others, by use and by crowd, the lowest first.
    std::set<Node*, LessFill> by_fill;
    std::set<Node*, LessUse> by_use;  // by use, then by crowd, the lowest first
  };
  template <class Change>
  void change(Node& node, Change change);
  Orders& orders_of(const Node& node) { return node.has_gpus() ? with_gpus_ : without_gpus_; }
  /// Calls `find` with the orders of the nodes without GPUs and then of those with GPUs, until it returns a node. Nodes
  /// without GPUs are left out if the demand asks for GPUs.
  template <class Find>
  Node* find_in_orders(const Demand& demand, Find find) const;

  std::unordered_map<NodeId, std::unique_ptr<Node>> nodes_;
  Orders without_gpus_;
  Orders with_gpus_;
  std::uint32_t last_index_ = 0;
  std::size_t with_tasks_ = 0;
  Resources total_;
  Resources left_;
};

}  // namespace pharos::scheduler
