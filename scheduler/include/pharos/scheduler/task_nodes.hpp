#pragma once

#include <optional>
#include <string>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/fleet.hpp>

namespace pharos::scheduler {

/// Chooses nodes for the tasks of callers on other nodes. Nothing is reserved for a task: the node itself decides which
/// tasks it serves. But what is known of the nodes' tasks counts when a node is chosen.
/// Has no state but the Fleet's, which Placement shares and which has to outlive this object. Owned by LeaseBroker, on
/// the strand of the head. Nodes that are unknown to the Fleet are ignored.
class TaskNodes {
 public:
  explicit TaskNodes(Fleet& fleet) : fleet_{fleet} {}

  /// Says what the node has given to tasks. New placements prefer nodes with room beside the tasks.
  void note_tasks(NodeId node, Resources in_use);
  /// Chooses a node for a task: `preference.near` if there is room beside that node's tasks, else a node with room,
  /// else the node of lowest use on which the demand could fit. Returns kInvalidArgument if it could fit on no node.
  /// The demand counts as taken by tasks of the chosen node until the next note_tasks(). take_room() does the same.
  Result<NodeId> find_node(const Demand& demand, const Preference& preference, const std::string& who);
  /// Chooses a node for a task that has room beside its tasks at this moment, and is not `except`; nullopt if no node
  /// has.
  std::optional<NodeId> take_room(const Demand& demand, NodeId near, NodeId except);
  /// Says that `more` leases of the node's workers, or fewer if negative, have been given to callers on other nodes.
  void count_leases(NodeId node, int more);

 private:
  void add_task(Fleet::Node& node, const Demand& demand);

  Fleet& fleet_;
};

}  // namespace pharos::scheduler
