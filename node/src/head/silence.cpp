#include "head/silence.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace pharos::node {

void Silence::add(Number node, std::string machine, TimePoint now) {
  nodes_.insert_or_assign(node, Node{.machine = std::move(machine), .last_word = now});
}

Silence::Change Silence::heard(Number number, TimePoint now) {
  const auto found = nodes_.find(number);
  if (found == nodes_.end()) return Change::kNone;
  found->second.ticks = 0;
  found->second.last_word = now;
  if (!suspects_ || found->second.machine.empty()) return Change::kNone;
  suspects_ = false;
  for (auto& [other, node] : nodes_) {
    if (node.machine.empty()) continue;
    node.ticks = 0;
    node.last_word = now;
  }
  return Change::kSuspicionEnds;
}

Silence::Tick Silence::tick() {
  Tick result;
  std::vector<Number> due_here;
  std::vector<Number> due_elsewhere;
  for (auto& [number, node] : nodes_) {
    if (++node.ticks <= kTicksMax) continue;
    (node.machine.empty() ? due_here : due_elsewhere).push_back(number);
  }
  result.lost = std::move(due_here);
  if (suspects_) {
    if (++suspicion_ticks_ <= kSuspicionTicksMax) return result;
    suspects_ = false;
    result.change = Change::kSuspicionEnds;
  } else if (!due_elsewhere.empty() && all_fell_silent_together()) {
    suspects_ = true;
    suspicion_ticks_ = 0;
    result.change = Change::kSuspicionBegins;
    return result;
  }
  result.lost.insert(result.lost.end(), due_elsewhere.begin(), due_elsewhere.end());
  std::sort(result.lost.begin(), result.lost.end());
  return result;
}

bool Silence::all_fell_silent_together() const {
  std::set<std::string> machines;
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const auto& [number, node] : nodes_) {
    if (node.machine.empty()) continue;
    machines.insert(node.machine);
    first = std::min(first, node.last_word);
    last = std::max(last, node.last_word);
  }
  return machines.size() >= 2 && last - first <= kTogether;
}

std::uint32_t Silence::ticks_of(Number node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second.ticks;
}

bool Silence::is_elsewhere(Number node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second.machine.empty();
}

}  // namespace pharos::node
