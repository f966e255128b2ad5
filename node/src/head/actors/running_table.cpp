#include "head/actors/running_table.hpp"

#include <algorithm>

namespace pharos::node::head {

void RunningTable::add(ActorId actor, const Running& running) {
  at_node_[running.node].insert(actor);
  running_.insert_or_assign(actor, running);
}

std::optional<RunningTable::Running> RunningTable::remove(ActorId actor, std::uint32_t incarnation) {
  if (find(actor, incarnation) == nullptr) return std::nullopt;
  const Running removed = running_.extract(actor).mapped();
  const auto there = at_node_.find(removed.node);
  there->second.erase(actor);
  if (there->second.empty()) at_node_.erase(there);
  return removed;
}

bool RunningTable::note_told(ActorId actor) {
  const auto found = running_.find(actor);
  return found != running_.end() && std::exchange(found->second.untold, false);
}

const RunningTable::Running* RunningTable::find(ActorId actor) const {
  const auto found = running_.find(actor);
  return found == running_.end() ? nullptr : &found->second;
}

const RunningTable::Running* RunningTable::find(ActorId actor, std::uint32_t incarnation) const {
  const Running* const running = find(actor);
  return running == nullptr || running->incarnation != incarnation ? nullptr : running;
}

std::vector<std::pair<ActorId, std::uint32_t>> RunningTable::at(NodeId node) const {
  std::vector<std::pair<ActorId, std::uint32_t>> all;
  const auto there = at_node_.find(node);
  if (there == at_node_.end()) return all;
  for (const ActorId actor : there->second) all.emplace_back(actor, running_.at(actor).incarnation);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace pharos::node::head
