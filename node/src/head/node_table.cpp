#include "head/node_table.hpp"

#include <chrono>

namespace pharos::node::head {
namespace {

constexpr Duration kConfirmTime = std::chrono::milliseconds{100};

}  // namespace

void NodeTable::add(NodeId node, std::string address, Events::Tell tell) {
  nodes_.emplace(node, Node{.address = std::move(address)});
  events_.connect(node, std::move(tell));
  for (const auto& [number, rotated] : rotations_.all()) events_.tell(node, rotated);
}

void NodeTable::rotate_token(NodeId from, wire::RotateToken rotated) {
  const std::uint64_t question = rotated.number;
  if (auto added = rotations_.add(std::move(rotated)); !added) {
    return events_.tell(from, wire::Refused{question, std::move(added).error()});
  }
  for (const auto& [id, node] : nodes_) events_.tell(id, rotations_.all().rbegin()->second);
  events_.tell(from, wire::Rows{{"nodes"}, {{std::to_string(nodes_.size())}}, 1, question});
}

std::optional<std::string> NodeTable::remove(NodeId node) {
  auto found = nodes_.extract(node);
  if (found.empty()) return std::nullopt;
  events_.disconnect(node);
  return std::move(found.mapped().address);
}

const NodeTable::Node* NodeTable::find(NodeId node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

const std::string& NodeTable::address_of(NodeId node) const {
  const std::string* const expected = recovery_.find_expected(node);
  return expected != nullptr ? *expected : nodes_.at(node).address;
}

void NodeTable::note_said(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.said++ != found->second.confirmed) return;
  events_.run_later(kConfirmTime, [this, id] {
    const auto node = nodes_.find(id);
    if (node == nodes_.end() || node->second.confirmed == node->second.said) return;
    node->second.confirmed = node->second.said;
    events_.tell(id, wire::Confirmed{node->second.said});
  });
}

void NodeTable::note_waiting(NodeId node, std::vector<wire::WaitingTasks> waiting) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) found->second.waiting = std::move(waiting);
}

bool NodeTable::end_silence(NodeId node) {
  if (silent_.erase(node) == 0) return false;
  const auto [first, last] = asks_.equal_range(node);
  std::vector<std::pair<NodeId, wire::FindNode>> waiting;
  for (auto each = first; each != last; ++each) waiting.push_back(each->second);
  asks_.erase(first, last);
  for (const auto& [from, find] : waiting) find_for(from, find);
  return true;
}

void NodeTable::find_for(NodeId from, const wire::FindNode& find) {
  if (!contains(find.node) && !recovery_.expects(find.node)) {
    return events_.tell(
        from, wire::Refused{find.number, Error{ErrorCode::kNotFound, "the node is not part of this cluster any more"}});
  }
  if (is_silent(find.node) && asks_.size() < kAsksMax) {
    return static_cast<void>(asks_.emplace(find.node, std::pair{from, find}));
  }
  events_.tell(from, wire::NodeFound{find.number, address_of(find.node)});
}

}  // namespace pharos::node::head
