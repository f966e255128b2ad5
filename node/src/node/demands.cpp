#include "node/demands.hpp"

#include <pharos/scheduler/environment.hpp>

namespace pharos::node {

Result<scheduler::Demand> checked(const wire::Demand& demand) {
  PHAROS_TRY_VOID(scheduler::Resources::checked(demand.amounts));
  if (demand.labels.size() > scheduler::kLabelsMax) {
    return Error{ErrorCode::kInvalidArgument, "the demand has more than 64 rules about labels"};
  }
  PHAROS_TRY_VOID(scheduler::check_environment(demand.environment));
  auto known = demand_of(demand);
  for (const scheduler::LabelRule& rule : known.labels) PHAROS_TRY_VOID(rule.check());
  return known;
}

scheduler::Demand demand_of(const wire::Demand& demand) {
  scheduler::Demand known{scheduler::Resources{demand.amounts}, demand.only, {}};
  for (const wire::LabelRule& rule : demand.labels) known.labels.push_back({rule.name, rule.values, rule.is_not});
  return known;
}

scheduler::Preference preference_of(const wire::Demand& demand, NodeId asked_at) {
  return {.near = demand.near, .asked_at = asked_at, .spread = demand.spread};
}

std::vector<wire::GpuShare> to_wire(const std::vector<scheduler::GpuShare>& gpus) {
  std::vector<wire::GpuShare> shares;
  for (const auto& [index, amount] : gpus) shares.push_back({index, amount});
  return shares;
}

std::vector<scheduler::GpuShare> shares_of(const std::vector<wire::GpuShare>& gpus) {
  std::vector<scheduler::GpuShare> shares;
  for (const auto& [index, amount] : gpus) shares.push_back({index, amount});
  return shares;
}

wire::Asker* asker_of(wire::Message& message) {
  return std::visit(
      [](auto& alternative) -> wire::Asker* {
        if constexpr (requires { alternative.asker; }) return &alternative.asker;
        return nullptr;
      },
      message);
}

}  // namespace pharos::node
