#pragma once

#include <memory>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

#include "gpu_group.hpp"

namespace pharos::ml {

/// Chooses how the ranks' GPUs work together, the same on all ranks, and begins it. All ranks call it together, each on
/// its own device. kFailedPrecondition on all ranks if `path` cannot be had.
Result<std::unique_ptr<GpuGroup>> make_group(Communicator host, int device, GpuPath path);

}  // namespace pharos::ml
