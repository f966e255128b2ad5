#include "demand.hpp"

namespace pharos::actors {

Result<scheduler::Resources> demand_of(double cpus, double gpus, const std::map<std::string, double>& others) {
  scheduler::Resources demand;
  for (const auto& [name, amount] : others) {
    if (name == "cpu" || name == "gpu") {
      return Error{ErrorCode::kInvalidArgument, "the resource " + name + " has an option of its own",
                   "Write ." + name + "s = " + std::to_string(amount) + "."};
    }
    PHAROS_TRY_VOID(demand.set(name, amount));
  }
  PHAROS_TRY_VOID(demand.set("cpu", cpus));
  PHAROS_TRY_VOID(demand.set("gpu", gpus));
  return demand;
}

}  // namespace pharos::actors
