#include "cuda_calls.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace pharos::ml {
namespace {

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

/// A function of CUDA's driver, which is not linked: programs also run on machines without one. nullptr without it.
WaitValue driver_wait_value() {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  auto found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t asked =
      ::cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, kVersion, cudaEnableDefault, &found);
  return asked == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<WaitValue>(function) : nullptr;
}

WaitValue wait_value() {
  static const WaitValue function = driver_wait_value();
  return function;
}

}  // namespace

Result<void> done(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return {};
  const bool has_none = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                        status == cudaErrorInvalidDevice || status == cudaErrorStubLibrary;
  if (status == cudaErrorMemoryAllocation) {
    return Error{ErrorCode::kExhausted, what + ": " + ::cudaGetErrorString(status),
                 "Train with smaller batches, or with smaller DdpOptions::bucket_bytes."};
  }
  return Error{has_none ? ErrorCode::kFailedPrecondition : ErrorCode::kUnavailable,
               what + ": " + ::cudaGetErrorString(status),
               has_none ? "Run the program on a machine with a GPU and its driver." : "Check the GPU with nvidia-smi."};
}
Result<void> done(ncclResult_t status, const std::string& what) {
  if (status == ncclSuccess || status == ncclInProgress) return {};
  return Error{ErrorCode::kUnavailable, what + ": " + ::ncclGetErrorString(status),
               "Set NCCL_DEBUG=INFO to see NCCL's log."};
}

Result<void> make_stream(cudaStream_t& stream) {
  return done(::cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
}

Result<void> record(cudaEvent_t& event, cudaStream_t stream) {
  PHAROS_TRY_VOID(done(::cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return done(::cudaEventRecord(event, stream), "recording an event");
}

Result<bool> has_passed(cudaEvent_t event, const std::string& what) {
  const cudaError_t state = ::cudaEventQuery(event);
  if (state == cudaErrorNotReady) return false;
  PHAROS_TRY_VOID(done(state, what));
  return true;
}

Result<void> can_wait_for_numbers() {
  if (wait_value() != nullptr) return {};
  return Error{ErrorCode::kFailedPrecondition, "the driver has no cuStreamWaitValue32", "Install a newer driver."};
}

Result<void> wait_for_number(cudaStream_t stream, const std::uint32_t* number, std::uint32_t least) {
  const CUresult given = wait_value()(stream, reinterpret_cast<CUdeviceptr>(number), least, CU_STREAM_WAIT_VALUE_GEQ);
  if (given == CUDA_SUCCESS) return {};
  return Error{ErrorCode::kUnavailable, "letting the GPU wait for another rank: CUDA's error " + std::to_string(given),
               "Check the GPU with nvidia-smi."};
}

Result<bool> shares_gpu(Communicator& host, int device) {
  cudaDeviceProp own{};
  PHAROS_TRY_VOID(done(::cudaGetDeviceProperties(&own, device), "reading the UUID of GPU " + std::to_string(device)));
  constexpr std::size_t kSize = sizeof own.uuid;
  std::vector<std::byte> all(kSize * host.size());
  const auto uuid = std::as_bytes(std::span{&own.uuid, 1});
  PHAROS_TRY_VOID(tried([&] { host.all_gather(uuid, std::span{all}); }));
  for (std::uint32_t other = 0; other < host.size(); ++other) {
    if (other != host.rank() && std::ranges::equal(std::span{all}.subspan(other * kSize, kSize), uuid)) return true;
  }
  return false;
}

}  // namespace pharos::ml
