#pragma once

#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>

namespace pharos::node {

/// One of this machine's. Its number is its place among them.
struct Gpu {
  std::string type;  ///< "NVIDIA A100-SXM4-80GB"
  std::string uuid;  ///< "GPU-8a2f…"
  ByteCount memory;
};

/// This machine's GPUs, as NVIDIA's library for that tells (NVML), which comes with the driver and is loaded for the
/// question alone. kNotFound: there is no such library; kUnavailable: it says that it cannot tell.
Result<std::vector<Gpu>> find_gpus();

}  // namespace pharos::node
