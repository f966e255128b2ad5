#include "program/cluster_nodes.hpp"

#include <pharos/scheduler/resources.hpp>

#include "program/ask_node.hpp"

namespace pharos::actors {
namespace {

ResourceAmounts amounts_of(const wire::Amounts& of) {
  ResourceAmounts amounts;
  for (const auto& [name, steps] : of) {
    amounts[name] = static_cast<double>(steps) / (name == "memory" ? 1.0 : double{scheduler::Resources::kWhole});
  }
  return amounts;
}

ClusterNode node_of(const wire::NodesListed::Each& listed) {
  using State = ClusterNode::State;
  return {.id = listed.node,
          .address = listed.address,
          .state = listed.is_silent ? State::kSilent : (listed.drains ? State::kDrains : State::kAlive),
          .resources = {.has = amounts_of(listed.has), .in_use = amounts_of(listed.in_use)},
          .labels = listed.labels};
}

}  // namespace

Result<std::vector<ClusterNode>> ask_for_nodes(NodeLine& line) {
  PHAROS_TRY(const wire::NodesListed listed, ask_node<wire::NodesListed>(line, wire::ListNodes{}));
  std::vector<ClusterNode> nodes;
  for (const wire::NodesListed::Each& each : listed.nodes) nodes.push_back(node_of(each));
  return nodes;
}

}  // namespace pharos::actors
