// A fake NVML: the part of its C interface that a node uses. It reports two GPUs of one type, whose nearest common
// ancestor is the bridge of a CPU. The first computes for 40% of the time and has 10 GiB in use. With TWO_GPUS_MIXED in
// the environment they are of two types and sizes; with TWO_GPUS_NVLINK they are connected by NVLink; with
// TWO_GPUS_USER=PID that process uses 3 GiB of the first; with TWO_GPUS_FAIL the driver does not run.

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kInsufficientSize = 7;
constexpr int kDriverNotLoaded = 9;
constexpr int kOverNvLink = 2;
constexpr int kWorks = 0;
constexpr int kNotSupported = 5;
constexpr int kHostBridge = 30;

struct Device {
  const char* name;
  const char* uuid;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Utilization {
  unsigned gpu;
  unsigned memory;
};
struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int starts = 0;
Device devices[] = {{"NVIDIA A100-SXM4-80GB", "GPU-8a2f0000-0000-0000-0000-000000000000"},
                    {"NVIDIA A100-SXM4-80GB", "GPU-8b3e0000-0000-0000-0000-000000000000"}};

int copy(const char* text, char* to, unsigned length) {
  if (starts == 0) return kUninitialized;
  std::strncpy(to, text, length);
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int init() __asm__("nvmlInit_v2");
int shut_down() __asm__("nvmlShutdown");
int count(unsigned* count) __asm__("nvmlDeviceGetCount_v2");
int handle_of(unsigned index, void** device) __asm__("nvmlDeviceGetHandleByIndex_v2");
int name_of(const void* device, char* name, unsigned length) __asm__("nvmlDeviceGetName");
int uuid_of(const void* device, char* uuid, unsigned length) __asm__("nvmlDeviceGetUUID");
int memory_of(const void* device, void* memory) __asm__("nvmlDeviceGetMemoryInfo");
int utilization_of(const void* device, void* rates) __asm__("nvmlDeviceGetUtilizationRates");
int processes_of(const void* device, unsigned* count,
                 void* processes) __asm__("nvmlDeviceGetComputeRunningProcesses_v3");
int peer_status_of(const void* one, const void* other, int capability, int* status) __asm__("nvmlDeviceGetP2PStatus");
int ancestor_of(const void* one, const void* other, int* level) __asm__("nvmlDeviceGetTopologyCommonAncestor");
const char* error_of(int status) __asm__("nvmlErrorString");
/// Returns how often NVML was initialized and not shut down.
int two_gpus_starts();

int init() {
  if (std::getenv("TWO_GPUS_FAIL") != nullptr) return kDriverNotLoaded;
  devices[1].name = std::getenv("TWO_GPUS_MIXED") != nullptr ? "Tesla T4" : devices[0].name;
  ++starts;
  return kSuccess;
}
int shut_down() {
  --starts;
  return kSuccess;
}
int count(unsigned* count) {
  *count = 2;
  return starts == 0 ? kUninitialized : kSuccess;
}
int handle_of(unsigned index, void** device) {
  if (starts == 0 || index > 1) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}
int name_of(const void* device, char* name, unsigned length) {
  return copy(static_cast<const Device*>(device)->name, name, length);
}
int uuid_of(const void* device, char* uuid, unsigned length) {
  return copy(static_cast<const Device*>(device)->uuid, uuid, length);
}
int memory_of(const void* device, void* memory) {
  const bool is_small = device == &devices[1] && std::getenv("TWO_GPUS_MIXED") != nullptr;
  static_cast<Memory*>(memory)->total = is_small ? (16ULL << 30) - 1 : 80ULL << 30;
  static_cast<Memory*>(memory)->used = device == &devices[0] ? 10ULL << 30 : 0;
  return kSuccess;
}
int utilization_of(const void* device, void* rates) {
  *static_cast<Utilization*>(rates) = {device == &devices[0] ? 40U : 0, 0};
  return kSuccess;
}
int processes_of(const void* device, unsigned* count, void* processes) {
  const char* const user = std::getenv("TWO_GPUS_USER");
  const bool has_user = user != nullptr && device == &devices[0];
  if (has_user && *count < 1) return kInsufficientSize;
  *count = has_user ? 1 : 0;
  if (has_user) *static_cast<Process*>(processes) = {static_cast<unsigned>(std::atoi(user)), 3ULL << 30, 0, 0};
  return kSuccess;
}
int peer_status_of(const void* one, const void* other, int capability, int* status) {
  if (one == other) return kInvalidArgument;
  const bool works = capability == kOverNvLink && std::getenv("TWO_GPUS_NVLINK") != nullptr;
  *status = works ? kWorks : kNotSupported;
  return kSuccess;
}
int ancestor_of(const void* one, const void* other, int* level) {
  if (one == other) return kInvalidArgument;
  *level = kHostBridge;
  return kSuccess;
}
const char* error_of(int status) {
  return status == kDriverNotLoaded ? "Driver Not Loaded" : "Unknown Error";
}
int two_gpus_starts() {
  return starts;
}

}  // extern "C"
#pragma GCC visibility pop
