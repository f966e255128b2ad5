#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/scheduler/labels.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::node {

/// The resources that this machine offers to actors and tasks, and its labels.
struct Machine {
  scheduler::Resources resources;
  std::vector<std::string> gpus;  ///< names of the GPUs by index, as in CUDA_VISIBLE_DEVICES
  scheduler::Labels labels{};
};

/// Finds out what this machine offers. kInvalidArgument if the options make no sense.
/// Resources are those that `options.resources` names ("gpu=2,cpu=8,memory=8GiB,fast_disk=1"). CPUs, GPUs and memory
/// that it does not name are looked up: the CPUs that this process may use by its affinity and its cgroups; the GPUs
/// that the driver shows, but only those that CUDA_VISIBLE_DEVICES names if it is set; the memory of the machine or as
/// much as cgroups allow, less what objects may take. `options.cpus`, unless it is 0, overrides both.
/// Labels are those of `options.labels` ("zone=a,disk=ssd"). If all GPUs have the same type, the label "gpu_type" is
/// added, unless it is there already.
/// `root` is "/" except in tests.
Result<Machine> look_at_machine(const DaemonOptions& options, const std::filesystem::path& root = "/");

}  // namespace pharos::node
