#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/scheduler/labels.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::node {

/// What this machine gives to actors and tasks.
struct Machine {
  scheduler::Resources resources;
  std::vector<std::string> gpus;  ///< by index, as CUDA_VISIBLE_DEVICES names them
  scheduler::Labels labels{};
};

/// What `resources` says ("gpu=2,cpu=8,memory=8GiB,fast_disk=1"), and of CPUs, GPUs and memory that it does not name
/// what is found: the CPUs that this process may use, by its affinity and its cgroups; the GPUs that the driver shows,
/// of them those that CUDA_VISIBLE_DEVICES names; the memory that there is or that cgroups allow, less what objects may
/// take. `cpus`, unless 0, counts more than either. What `labels` says ("zone=a,disk=ssd"); and where all GPUs are of
/// one type, that as "gpu_type", unless `labels` has one. `root`, but in tests, is "/".
Result<Machine> look_at_machine(const DaemonOptions& options, const std::filesystem::path& root = "/");

}  // namespace pharos::node
