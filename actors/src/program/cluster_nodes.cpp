#include "program/cluster_nodes.hpp"

#include <utility>
#include <variant>

#include <pharos/async/block_on.hpp>
#include <pharos/scheduler/resources.hpp>

#include "caller/refused.hpp"

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

async::Async<Result<wire::NodesListed>> request_nodes(NodeLine& line) {
  PHAROS_CO_TRY(const net::Parcel answer, co_await line.request(wire::ListNodes{}));
  const auto* const listed = std::get_if<wire::NodesListed>(&answer.message);
  if (listed == nullptr)
    co_return Error{ErrorCode::kInternal, "the node answered the request for the nodes with an unexpected message"};
  co_return *listed;
}

}  // namespace

Result<std::vector<ClusterNode>> ask_for_nodes(NodeLine& line) {
  if (line.abandoned()) return forked();
  if (const auto why = line.over()) return *why;
  PHAROS_TRY(const wire::NodesListed listed, async::block_on(line.executor(), request_nodes(line)));
  std::vector<ClusterNode> nodes;
  for (const wire::NodesListed::Each& each : listed.nodes) nodes.push_back(node_of(each));
  return nodes;
}

}  // namespace pharos::actors
