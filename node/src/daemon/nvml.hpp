#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>

namespace pharos::node {

/// What two GPUs send each other data over, the fastest first. The names in the comments are those of `nvidia-smi
/// topo`.
enum class GpuLink : std::uint8_t {
  kNvLink,
  kOneSwitch,     ///< PIX: at most one PCIe switch
  kSwitches,      ///< PXB: several PCIe switches
  kHostBridge,    ///< PHB: the PCIe bridge of a CPU
  kNumaNode,      ///< NODE: several bridges of one NUMA node
  kBetweenNodes,  ///< SYS: the link between NUMA nodes
  kUnknown,
};

/// A process that uses a GPU, a value.
struct GpuProcess {
  pid_t pid = 0;
  ByteCount memory;
};

/// A GPU of this machine, a value. Its number is its place in the list of find_gpus(). A property that the library does
/// not tell is empty, 0 or kUnknown.
struct Gpu {
  std::string type;  ///< "NVIDIA A100-SXM4-80GB"
  std::string uuid;  ///< "GPU-8a2f…"
  ByteCount memory;
  ByteCount used;                        ///< memory in use
  std::optional<unsigned> busy_percent;  ///< part of the last second in which it computed
  std::vector<GpuProcess> processes;     ///< those that compute on it
  std::vector<GpuLink> links;            ///< to each GPU before this one in the list
};

/// The GPUs of this machine, as NVIDIA's management library (NVML) lists them, without those that this process may not
/// use. The library comes with the driver. It is loaded for this call and unloaded again. Blocks; any thread.
/// kNotFound if the library cannot be loaded; kUnavailable if it fails or lacks a function.
Result<std::vector<Gpu>> find_gpus();

/// The GPU that CUDA knows by this name: an index like "1", or the beginning of a UUID like "GPU-8a2f". A GPU without a
/// UUID may have any. Null if there is none.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, const std::string& name);

}  // namespace pharos::node
