#pragma once

#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>

namespace pharos::node {

/// A GPU of this machine, a value. Its number is its place in the list of find_gpus(). A property that the library does
/// not tell is empty or 0.
struct Gpu {
  std::string type;  ///< "NVIDIA A100-SXM4-80GB"
  std::string uuid;  ///< "GPU-8a2f…"
  ByteCount memory;
};

/// The GPUs of this machine, as NVIDIA's management library (NVML) lists them, without those that this process may not
/// use. The library comes with the driver. It is loaded for this call and unloaded again. Called by look_at_machine()
/// when the daemon starts; blocks. kNotFound if the library cannot be loaded; kUnavailable if it fails or lacks a
/// function.
Result<std::vector<Gpu>> find_gpus();

}  // namespace pharos::node
