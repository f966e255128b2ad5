#pragma once

#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>

namespace pharos::node {

/// A GPU of this machine. Its number is its place in the list of find_gpus().
struct Gpu {
  std::string type;  ///< "NVIDIA A100-SXM4-80GB"
  std::string uuid;  ///< "GPU-8a2f…"
  ByteCount memory;
};

/// The GPUs of this machine, as NVIDIA's management library (NVML) lists them. The library comes with the driver. It is
/// loaded for this call and unloaded again. kNotFound if there is no such library; kUnavailable if it fails.
Result<std::vector<Gpu>> find_gpus();

}  // namespace pharos::node
