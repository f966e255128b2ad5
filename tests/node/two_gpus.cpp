// A fake NVML: the part of its C interface that a node uses. It reports two GPUs of one type. With TWO_GPUS_MIXED in
// the environment they are of two types; with TWO_GPUS_FAIL the driver does not run.

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kDriverNotLoaded = 9;

struct Device {
  const char* name;
  const char* uuid;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
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
int memory_of(const void*, void* memory) {
  static_cast<Memory*>(memory)->total = 80ULL << 30;
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
