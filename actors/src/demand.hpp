#pragma once

#include <map>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::actors {

/// What options ask for.
Result<scheduler::Resources> demand_of(double cpus, double gpus, const std::map<std::string, double>& others);

}  // namespace pharos::actors
