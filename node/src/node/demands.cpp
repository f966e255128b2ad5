#include "node/demands.hpp"

#include <pharos/scheduler/environment.hpp>

namespace pharos::node {
namespace {

std::vector<scheduler::LabelRule> rules_of(const std::vector<wire::LabelRule>& rules) {
  std::vector<scheduler::LabelRule> known;
  for (const wire::LabelRule& rule : rules) known.push_back({rule.name, rule.values, rule.is_not});
  return known;
}

}  // namespace

Result<scheduler::Demand> checked(const wire::Demand& demand) {
  PHAROS_TRY_VOID(scheduler::Resources::checked(demand.amounts));
  if (demand.labels.size() > scheduler::kLabelsMax) {
    return Error{ErrorCode::kInvalidArgument, "the demand has more than 64 rules about labels"};
  }
  PHAROS_TRY_VOID(scheduler::check_environment(demand.environment));
  auto known = demand_of(demand);
  for (const scheduler::LabelRule& rule : known.labels) PHAROS_TRY_VOID(rule.check());
  if (demand.prefer.size() > scheduler::kLabelsMax) {
    return Error{ErrorCode::kInvalidArgument, "the demand has more than 64 preferences"};
  }
  for (const auto& rules : demand.prefer) {
    if (rules.size() > scheduler::kLabelsMax) {
      return Error{ErrorCode::kInvalidArgument, "a preference of the demand has more than 64 rules about labels"};
    }
    for (const scheduler::LabelRule& rule : rules_of(rules)) PHAROS_TRY_VOID(rule.check());
  }
  return known;
}

scheduler::Demand demand_of(const wire::Demand& demand) {
  return {scheduler::Resources{demand.amounts}, demand.only, rules_of(demand.labels), demand.group};
}

scheduler::Preference preference_of(const wire::Demand& demand, NodeId asked_at) {
  scheduler::Preference preference{.near = demand.near, .asked_at = asked_at, .spread = demand.spread};
  for (const auto& rules : demand.prefer) preference.labels.push_back(rules_of(rules));
  return preference;
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
