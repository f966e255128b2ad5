#include "cuda_calls.hpp"

namespace pharos::ml {

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

}  // namespace pharos::ml
