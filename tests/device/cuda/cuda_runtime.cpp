#include <c10/util/Exception.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "drill.hpp"
#include "memory.hpp"
#include "queues.hpp"

namespace {

using namespace pharos::simulated;

/// Memory that cudaMalloc or cudaMallocHost has given, until it is freed.
class Allocations {
 public:
  void* add(c10::DataPtr data) {
    void* const address = data.get();
    const std::lock_guard lock{mutex_};
    all_.emplace(address, std::move(data));
    return address;
  }
  bool remove(void* address) {
    const std::lock_guard lock{mutex_};
    return all_.erase(address) != 0;
  }

 private:
  std::mutex mutex_;
  std::map<void*, c10::DataPtr> all_;
};
Allocations& allocations = *new Allocations;

int current_device() {
  return Streams::device();
}

Queue& queue_of(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return streams().queue(Streams::device(), 0);
  return *reinterpret_cast<Queue*>(stream);
}

Event& event_of(cudaEvent_t event) {
  return **reinterpret_cast<std::shared_ptr<Event>*>(event);
}

bool is_of_device(const void* address) {
  return memory().device_of(address).has_value();
}

/// The address that a copy uses when it runs.
void* place_of(const void* address) {
  return is_of_device(address) ? Memory::for_kernels(address) : const_cast<void*>(address);
}

/// Copies run when their turn comes only if the memory of the host is pinned. CUDA reads other memory at once, and
/// waits until it has written to it.
void copy(void* to, const void* from, std::size_t bytes, Queue& queue) {
  const auto piece = order().begin(queue.number());
  memory().note(piece, from, bytes, false, "cudaMemcpyAsync");
  memory().note(piece, to, bytes, true, "cudaMemcpyAsync");
  if (!is_of_device(from) && !pinned_memory().has(from)) {
    const auto* const begin = static_cast<const std::byte*>(from);
    queue.push([to = place_of(to), read = std::vector<std::byte>(begin, begin + bytes)] {
      std::memcpy(to, read.data(), read.size());
    });
    return;
  }
  queue.push([to = place_of(to), from = place_of(from), bytes] { std::memcpy(to, from, bytes); });
  if (!is_of_device(to) && !pinned_memory().has(to)) queue.synchronize();
}

/// Calls `f`, and returns what CUDA would return instead of the exception.
template <class F>
cudaError_t caught(const F& f) {
  try {
    f();
    return cudaSuccess;
  } catch (const c10::OutOfMemoryError&) {
    return cudaErrorMemoryAllocation;
  } catch (const std::exception&) {
    return cudaErrorLaunchFailure;
  }
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStubLibrary: return "CUDA driver is a stub library";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorPeerAccessUnsupported: return "peer access is not supported between these two devices";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  Streams::set_device(static_cast<c10::DeviceIndex>(device));
  return cudaSuccess;
}

// No two processes share a simulated device.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "simulated");
  const pid_t process = ::getpid();
  std::memcpy(properties->uuid.bytes, &process, sizeof process);
  properties->uuid.bytes[sizeof properties->uuid.bytes - 1] = static_cast<char>(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  if (attribute != cudaDevAttrMultiProcessorCount) return cudaErrorInvalidValue;
  *value = 2;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return caught([] { streams().synchronize(Streams::device()); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(&streams().queue(Streams::device(), streams().make()));
  return cudaSuccess;
}

// What is queued is still done, as by CUDA. The queue's thread ends, and the queue stays, because others may look at
// it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  queue_of(stream).end();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_left_out(__func__, __builtin_return_address(0))) return cudaSuccess;
  return caught([&] { queue_of(stream).synchronize(); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return queue_of(stream).is_idle() ? cudaSuccess : cudaErrorNotReady;
}

// Whoever asks for a call waits for the device. The host knows what the stream has done once the call has been made.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  ++activity().host_waits;
  Queue& queue = queue_of(stream);
  queue.push([=, done = order().now(queue.number())] {
    order().host_waited(done);
    function(data);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (is_left_out(__func__, __builtin_return_address(0))) return cudaSuccess;
  event_of(event).block(queue_of(stream));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new std::shared_ptr<Event>{std::make_shared<Event>()});
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_left_out(__func__, __builtin_return_address(0))) return cudaSuccess;
  event_of(event).record(queue_of(stream));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_left_out(__func__, __builtin_return_address(0))) return cudaSuccess;
  return event_of(event).is_done() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::shared_ptr<Event>*>(event);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  std::tie(*free, *all) = memory().getMemoryInfo(Streams::device());
  return cudaSuccess;
}

// Gives memory that no work uses, as CUDA does.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  using pharos::simulated::Memory;
  return caught([&] { *memory = allocations.add(pharos::simulated::memory().allocate(bytes, Memory::Blocks::kNew)); });
}

// Waits for the whole device, as CUDA does.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const auto device = pharos::simulated::memory().device_of(memory);
  if (!device) return cudaErrorInvalidValue;
  const cudaError_t done = caught([&] { streams().synchronize(device); });
  return allocations.remove(memory) ? done : cudaErrorInvalidValue;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return caught([&] { *memory = allocations.add(pinned_memory().allocate(bytes)); });
}

cudaError_t cudaFreeHost(void* memory) {
  return allocations.remove(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const auto on_host = pinned_memory().has(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  attributes->type = is_of_device(address) ? cudaMemoryTypeDevice : on_host;
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  pinned_memory().add(memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  pinned_memory().forget(memory);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

namespace {

/// PHAROS_DEVICES_APART=1: no device uses the memory of another one.
bool are_apart() {
  return std::getenv("PHAROS_DEVICES_APART") != nullptr;
}

// The stream looks at the number again and again, as a GPU does.
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  if (is_left_out("cuStreamWaitValue32", __builtin_return_address(0))) return CUDA_SUCCESS;
  queue_of(stream).push([&number = *reinterpret_cast<std::uint32_t*>(address), value] {
    while (static_cast<std::int32_t>(std::atomic_ref{number}.load(std::memory_order_acquire) - value) < 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  });
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool is_there = std::string_view{symbol} == "cuStreamWaitValue32";
  *function = is_there ? reinterpret_cast<void*>(&wait_value) : nullptr;
  *found = is_there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) {
  if (are_apart()) return cudaErrorPeerAccessUnsupported;
  static std::array<std::atomic<bool>, kDevices * kDevices> enabled{};
  const auto pair = static_cast<std::size_t>(current_device() * kDevices + device);
  return enabled.at(pair).exchange(true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const auto shared = memory().share(address);
  if (!shared || are_apart()) return cudaErrorInvalidValue;
  static_assert(sizeof *shared <= sizeof *handle);
  std::memcpy(handle, &*shared, sizeof *shared);
  return cudaSuccess;
}

// As in CUDA, a process does not open memory of its own.
cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  Memory::Shared shared{};
  std::memcpy(&shared, &handle, sizeof shared);
  if (shared.process == ::getpid()) return cudaErrorInvalidValue;
  return caught([&] { *address = memory().open(shared); }) == cudaSuccess && *address != nullptr
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  return caught([&] { memory().close(address); });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return caught([&] {
    Queue& queue = queue_of(nullptr);
    copy(to, from, bytes, queue);
    queue.synchronize();
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return caught([&] { copy(to, from, bytes, queue_of(stream)); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  Queue& queue = queue_of(stream);
  pharos::simulated::memory().note(order().begin(queue.number()), memory, bytes, true, "cudaMemsetAsync");
  queue.push([memory = Memory::for_kernels(memory), value, bytes] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
