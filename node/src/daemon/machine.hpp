#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/node/daemon_options.hpp>
#include <pharos/scheduler/labels.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::node {

/// The resources that this machine offers to actors and tasks, and its labels. A value.
struct Machine {
  scheduler::Resources resources;
  std::vector<std::string> gpus;  ///< names of the GPUs by index, as in CUDA_VISIBLE_DEVICES
  scheduler::Labels labels{};
};

/// Finds out what this machine offers. The daemon calls it once, when it starts; it reads files and the environment,
/// and loads NVIDIA's library for the time of the call. Fails with kInvalidArgument if the options make no sense, for
/// example if they name a part of a GPU, or more GPUs than CUDA_VISIBLE_DEVICES. What cannot be looked up counts as not
/// there, except that there is at least one CPU. GPUs that `options.resources` names count even if they are not found.
/// Resources are those that `options.resources` names ("gpu=2,cpu=8,memory=8GiB,fast_disk=1"). CPUs, GPUs and memory
/// that it does not name are looked up: the CPUs that this process may use by its affinity and its cgroups; the GPUs
/// that the driver shows, but only those that CUDA_VISIBLE_DEVICES names if it is set; the memory of the machine or as
/// much as cgroups allow, less what objects may take. `options.cpus`, unless it is 0, overrides both.
/// Labels are those of `options.labels` ("zone=a,disk=ssd"), and those that describe the GPUs: "gpu_type", if all have
/// the same known type; "gpu_memory", that of the smallest in whole GiB ("80GiB"); and "gpu_links" if there are
/// several, the slowest link between two of them: nvlink, or pix, pxb, phb, node or sys, as in `nvidia-smi topo`. A
/// label of the user's comes before one of these, and a node has at most kLabelsMax. `root` is "/" except in tests.
Result<Machine> look_at_machine(const DaemonOptions& options, const std::filesystem::path& root = "/");

}  // namespace pharos::node
