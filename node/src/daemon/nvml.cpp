#include "daemon/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>

namespace pharos::node {
namespace {

// Declarations of nvml.h, as far as they are used here. NVIDIA does not change them: a changed function gets a new
// name, with _v2.
using Device = struct nvmlDevice_st*;
using Status = int;
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Utilization {
  unsigned gpu;
  unsigned memory;
};
struct ListedProcess {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr Status kSuccess = 0;
constexpr unsigned kTextMax = 96;
constexpr int kOverNvLink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int kWorks = 0;       // NVML_P2P_STATUS_OK
constexpr unsigned kProcessesMax = 256;
constexpr auto kNotTold = ~0ULL;  // the memory of a process in a container, for example

/// The link of two GPUs whose nearest common ancestor has this nvmlGpuTopologyLevel_t.
GpuLink link_below(int ancestor) {
  switch (ancestor) {
    case 0:  // both are on one board
    case 10: return GpuLink::kOneSwitch;
    case 20: return GpuLink::kSwitches;
    case 30: return GpuLink::kHostBridge;
    case 40: return GpuLink::kNumaNode;
    case 50: return GpuLink::kBetweenNodes;
    default: return GpuLink::kUnknown;
  }
}

/// The library, loaded and initialised. The destructor shuts it down and unloads it.
class Nvml {
 public:
  static Result<std::unique_ptr<Nvml>> open() {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Error{ErrorCode::kNotFound, ::dlerror()};
    std::unique_ptr<Nvml> nvml{new Nvml{library}};
    if (!nvml->complete_)
      return Error{ErrorCode::kUnavailable, "libnvidia-ml.so.1 lacks functions that it should have"};
    const Status started = nvml->init_();
    nvml->started_ = started == kSuccess;
    if (!nvml->started_) return nvml->failure("starting NVML", started);
    return nvml;
  }
  Nvml(Nvml&&) = delete;
  ~Nvml() {
    if (started_) shutdown_();
    ::dlclose(library_);
  }

  Result<std::vector<Gpu>> gpus() const {
    unsigned count = 0;
    if (const Status failed = count_(&count); failed != kSuccess) return failure("counting GPUs", failed);
    std::vector<Gpu> gpus;
    std::vector<Device> devices;
    for (unsigned i = 0; i < count; ++i) {
      // A GPU that this process may not use is skipped: CUDA gives it no number either.
      Device device = nullptr;
      if (device_(i, &device) != kSuccess) continue;
      gpus.push_back(describe(device));
      for (const Device each : devices) gpus.back().links.push_back(link_between(device, each));
      devices.push_back(device);
    }
    return gpus;
  }

 private:
  explicit Nvml(void* library) : library_{library} {
    load("nvmlInit_v2", init_);
    load("nvmlShutdown", shutdown_);
    load("nvmlDeviceGetCount_v2", count_);
    load("nvmlDeviceGetHandleByIndex_v2", device_);
    load("nvmlDeviceGetName", name_);
    load("nvmlDeviceGetUUID", uuid_);
    load("nvmlDeviceGetMemoryInfo", memory_);
    load("nvmlErrorString", error_);
    load_if_there("nvmlDeviceGetUtilizationRates", utilization_);
    load_if_there("nvmlDeviceGetComputeRunningProcesses_v3", processes_);
    load_if_there("nvmlDeviceGetP2PStatus", peer_status_);
    load_if_there("nvmlDeviceGetTopologyCommonAncestor", ancestor_);
  }
  template <class Function>
  void load_if_there(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  template <class Function>
  void load(const char* name, Function*& function) {
    load_if_there(name, function);
    complete_ = complete_ && function != nullptr;
  }

  // A property that the library does not tell is left empty.
  Gpu describe(Device device) const {
    Gpu gpu;
    std::array<char, kTextMax> text{};
    if (name_(device, text.data(), kTextMax - 1) == kSuccess) gpu.type = text.data();
    text.fill(0);
    if (uuid_(device, text.data(), kTextMax - 1) == kSuccess) gpu.uuid = text.data();
    Memory memory{};
    if (memory_(device, &memory) == kSuccess) {
      gpu.memory = ByteCount{memory.total};
      gpu.used = ByteCount{memory.used};
    }
    Utilization busy{};
    if (utilization_ != nullptr && utilization_(device, &busy) == kSuccess) gpu.busy_percent = busy.gpu;
    gpu.processes = processes_on(device);
    return gpu;
  }
  std::vector<GpuProcess> processes_on(Device device) const {
    std::vector<ListedProcess> found(kProcessesMax);
    unsigned count = kProcessesMax;
    if (processes_ == nullptr || processes_(device, &count, found.data()) != kSuccess) return {};
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < std::min(count, kProcessesMax); ++i) {
      const auto memory = found[i].used_memory == kNotTold ? 0 : found[i].used_memory;
      processes.push_back({.pid = static_cast<pid_t>(found[i].pid), .memory = ByteCount{memory}});
    }
    return processes;
  }
  GpuLink link_between(Device one, Device other) const {
    int found = 0;
    if (peer_status_ != nullptr && peer_status_(one, other, kOverNvLink, &found) == kSuccess && found == kWorks) {
      return GpuLink::kNvLink;
    }
    if (ancestor_ != nullptr && ancestor_(one, other, &found) == kSuccess) return link_below(found);
    return GpuLink::kUnknown;
  }
  Error failure(const char* what, Status status) const {
    return {ErrorCode::kUnavailable, std::string{what} + ": " + error_(status)};
  }

  void* const library_;
  bool complete_ = true;
  bool started_ = false;
  Status (*init_)() = nullptr;
  Status (*shutdown_)() = nullptr;
  Status (*count_)(unsigned*) = nullptr;
  Status (*device_)(unsigned, Device*) = nullptr;
  Status (*name_)(Device, char*, unsigned) = nullptr;
  Status (*uuid_)(Device, char*, unsigned) = nullptr;
  Status (*memory_)(Device, Memory*) = nullptr;
  const char* (*error_)(Status) = nullptr;
  // An older driver, or one for virtual machines, may lack these.
  Status (*utilization_)(Device, Utilization*) = nullptr;
  Status (*processes_)(Device, unsigned*, ListedProcess*) = nullptr;
  Status (*peer_status_)(Device, Device, int, int*) = nullptr;
  Status (*ancestor_)(Device, Device, int*) = nullptr;
};

}  // namespace

Result<std::vector<Gpu>> find_gpus() {
  PHAROS_TRY(const std::unique_ptr<Nvml> nvml, Nvml::open());
  return nvml->gpus();
}

const Gpu* find_gpu(const std::vector<Gpu>& gpus, const std::string& name) {
  std::size_t index = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
  if (read.ec == std::errc{} && read.ptr == name.data() + name.size()) {
    return index < gpus.size() ? &gpus[index] : nullptr;
  }
  const auto fits = [&](const Gpu& gpu) { return gpu.uuid.empty() || gpu.uuid.starts_with(name); };
  const auto found = std::find_if(gpus.begin(), gpus.end(), fits);
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace pharos::node
