#include "caller/shape.hpp"

#include <chrono>

namespace pharos::actors {

Result<scheduler::Resources> Shape::amounts_of(double cpus, double gpus, ByteCount memory,
                                               const std::map<std::string, double>& others) {
  scheduler::Resources amounts;
  for (const auto& [name, amount] : others) {
    if (name == "cpu" || name == "gpu") {
      return Error{ErrorCode::kInvalidArgument, "the resource " + name + " has an option of its own",
                   "Write ." + name + "s = " + std::to_string(amount) + "."};
    }
    if (name == "memory") {
      return Error{ErrorCode::kInvalidArgument, "the resource memory has an option of its own",
                   "Write .memory = 2_GiB."};
    }
    PHAROS_TRY_VOID(amounts.set(name, amount));
  }
  PHAROS_TRY_VOID(amounts.set("cpu", cpus));
  PHAROS_TRY_VOID(amounts.set("gpu", gpus));
  PHAROS_TRY_VOID(amounts.set_memory(memory));
  return amounts;
}

Result<std::vector<scheduler::LabelRule>> Shape::rules_of(const std::map<std::string, std::string>& rules) {
  std::vector<scheduler::LabelRule> parsed;
  for (const auto& [name, rule] : rules) {
    PHAROS_TRY(scheduler::LabelRule each, scheduler::LabelRule::parse(name, rule));
    parsed.push_back(std::move(each));
  }
  return parsed;
}

Result<std::int64_t> Shape::wait_of(Duration wait_for_nodes) {
  if (wait_for_nodes < Duration{}) {
    return Error{ErrorCode::kInvalidArgument, "wait_for_nodes is negative", "Give it a time, or leave it out."};
  }
  return std::chrono::ceil<std::chrono::milliseconds>(wait_for_nodes).count();
}

wire::Demand Shape::to_wire() const {
  wire::Demand to{.amounts = demand.amounts.amounts(),
                  .only = demand.only,
                  .labels = {},
                  .near = near,
                  .spread = spread,
                  .group = demand.group,
                  .bundle = bundle,
                  .wait_ms = wait_ms,
                  .environment = environment};
  for (const auto& rule : demand.labels) to.labels.push_back({rule.name, rule.values, rule.is_not});
  for (const auto& rules : prefer) {
    auto& preferred = to.prefer.emplace_back();
    for (const auto& rule : rules) preferred.push_back({rule.name, rule.values, rule.is_not});
  }
  return to;
}

}  // namespace pharos::actors
