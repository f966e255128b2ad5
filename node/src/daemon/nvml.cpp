#include "daemon/nvml.hpp"

#include <dlfcn.h>

#include <array>
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
constexpr Status kSuccess = 0;
constexpr unsigned kTextMax = 96;

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
    for (unsigned i = 0; i < count; ++i) {
      // A GPU that this process may not use is skipped: CUDA gives it no number either.
      Device device = nullptr;
      if (device_(i, &device) == kSuccess) gpus.push_back(describe(device));
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
  }
  template <class Function>
  void load(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
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
    if (memory_(device, &memory) == kSuccess) gpu.memory = ByteCount{memory.total};
    return gpu;
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
};

}  // namespace

Result<std::vector<Gpu>> find_gpus() {
  PHAROS_TRY(const std::unique_ptr<Nvml> nvml, Nvml::open());
  return nvml->gpus();
}

}  // namespace pharos::node
