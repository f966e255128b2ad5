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

/// What somebody needs of one node.
struct Demand {
  Resources amounts;
  NodeId only{};                    ///< no other node
  std::vector<LabelRule> labels{};  ///< all of them hold

  /// "2 GPUs on a node with zone=a".
  std::string to_string() const;
  std::string labels_to_string() const;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};

/// Where somebody would rather be, of the nodes that have room.
struct Preference {
  NodeId near{};        ///< there, before all others: what it needs lies there
  NodeId asked_at{};    ///< there, as long as it is not half full
  bool spread = false;  ///< where the least is in use; else nodes are filled to the half first, one after the other
};

/// The nodes of a cluster: what each has, what of it is taken, and what is set aside for those who wait, in the order
/// of their numbers. Finds the node for a demand without a look at all of them, unless hardly any has room.
/// Nodes with GPUs come behind all others for those who want none.
class Fleet {
 public:
  /// Changed by the fleet alone.
  struct Node {
    NodeId id;
    std::uint32_t index = 0;  // by age
    Labels labels;
    Ledger ledger;
    Resources tasks{};                            // that it has given to tasks, as it said last
    int users = 0;                                // actors, and leases that callers of other nodes have
    std::map<std::uint64_t, Resources> claims{};  // set aside, by number
    Resources set_aside{};                        // the sum of that
    bool closed = false;                          // to all that is new
    double use = 0;                               // of what is scarcest; users that hold nothing use nothing
    double crowd = 0;                             // users for each CPU: decides between nodes that are used as much
    bool has_gpus() const { return ledger.total().gpus() > 0; }
    /// What is left without what is set aside for numbers before this one.
    Resources room_before(std::uint64_t number) const;
  };
  static constexpr std::uint64_t kAllClaims = ~std::uint64_t{0};

  Node& add(NodeId id, const Resources& total, Labels labels);
  void remove(NodeId id);
  Node* find(NodeId id);
  const Node* find(NodeId id) const;
  bool empty() const { return nodes_.empty(); }

  /// Of what fits there.
  Allotment take(Node& node, const Resources& amounts);
  void take(Node& node, const Allotment& allotment);
  void give_back(Node& node, const Allotment& allotment);
  void take_user(Node& node, int more);
  void set_tasks(Node& node, Resources tasks);
  void claim(Node& node, std::uint64_t number, const Resources& amounts);
  void unclaim(Node& node, std::uint64_t number);
  /// The same is set aside for another number.
  static void pass_claim(Node& node, std::uint64_t number, std::uint64_t to);
  void close(Node& node);
  void open(Node& node);

  /// Were nothing taken.
  static bool could_fit(const Node& node, const Demand& demand);
  bool could_fit(const Demand& demand) const;
  /// Beside all that is set aside.
  static bool fits(const Node& node, const Demand& demand);
  /// One that it fits; none: no node has room.
  Node* choose(const Demand& demand, const Preference& preference);
  /// One that it fits beside tasks, but not `except`: `near`, or else the least used. Those of which something is all
  /// taken are not looked at.
  Node* find_room(const Demand& demand, NodeId near, NodeId except);
  /// One that it could fit, the least used first; none: it will never fit.
  Node* choose_to_wait_for(const Demand& demand);
  /// Those that are open, the least used first.
  std::vector<Node*> by_use() const;

  const Resources& total() const { return total_; }
  const Resources& left() const { return left_; }
  /// In the order of their age.
  std::vector<const Node*> all() const;
  /// kInvalidArgument: compared with the node that lacks the fewest of what is asked for.
  Error too_much(const std::string& who, const Demand& demand) const;

 private:
  struct LessFill {
    bool operator()(const Node* a, const Node* b) const;
  };
  struct LessUse {
    bool operator()(const Node* a, const Node* b) const;
  };
  /// Open nodes.
  struct Orders {
    std::set<Node*, LessFill> by_fill;  // nodes that are not half full by age, then the least used, least crowded first
    std::set<Node*, LessUse> by_use;    // of two that are used as much, the less crowded one first
  };
  template <class Change>
  void change(Node& node, Change change);
  Orders& orders_of(const Node& node) { return node.has_gpus() ? with_gpus_ : without_gpus_; }
  /// Calls that with the orders of nodes that may be of use, until it finds one.
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
