#include <utility>

#include <pharos/scheduler/task_nodes.hpp>

namespace pharos::scheduler {

void TaskNodes::note_tasks(NodeId id, Resources in_use) {
  if (Fleet::Node* const node = fleet_.find(id)) fleet_.set_tasks(*node, std::move(in_use));
}

Result<NodeId> TaskNodes::find_node(const Demand& demand, const Preference& preference, const std::string& who) {
  Fleet::Node* node = preference.near ? fleet_.find_room(demand, preference.near, {}) : nullptr;
  if (node == nullptr) node = fleet_.choose(demand, preference);
  if (node == nullptr) node = fleet_.choose_to_wait_for(demand);
  if (node == nullptr) return fleet_.too_much(who, demand);
  add_task(*node, demand);
  return node->id;
}

std::optional<NodeId> TaskNodes::take_room(const Demand& demand, NodeId near, NodeId except) {
  Fleet::Node* const node = fleet_.find_room(demand, near, except);
  if (node == nullptr) return std::nullopt;
  add_task(*node, demand);
  return node->id;
}

void TaskNodes::add_task(Fleet::Node& node, const Demand& demand) {
  Resources tasks = node.tasks;
  tasks += demand.amounts;
  fleet_.set_tasks(node, std::move(tasks));
}

void TaskNodes::count_leases(NodeId id, int more) {
  if (Fleet::Node* const node = fleet_.find(id)) fleet_.take_user(*node, more);
}

}  // namespace pharos::scheduler
