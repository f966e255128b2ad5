#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// The results of CUDA's and NCCL's functions as Results. `what` says what was tried. kExhausted for too little memory,
/// kFailedPrecondition if there is no such GPU, and else kUnavailable. Any thread.
Result<void> done(cudaError_t status, const std::string& what);
/// The same for NCCL, which may still be at it: that is no error.
Result<void> done(ncclResult_t status, const std::string& what);

/// A stream that does not wait for CUDA's default stream.
Result<void> make_stream(cudaStream_t& stream);
/// Makes the event, and records it on the stream.
Result<void> record(cudaEvent_t& event, cudaStream_t stream);
/// Whether the GPU has come as far as the event. The failure of earlier work is that of `what`.
Result<bool> has_passed(cudaEvent_t event, const std::string& what);

/// Whether streams can wait for numbers, as the next function makes them do.
Result<void> can_wait_for_numbers();
/// Lets the stream wait until the number is this one or a later one, counted modulo 2^32. The number lies in memory
/// that the GPU uses. Waiting occupies none of its processors.
Result<void> wait_for_number(cudaStream_t stream, const std::uint32_t* number, std::uint32_t least);

/// Whether another rank has the same GPU. All ranks call it together; fails as the host's operations do.
Result<bool> shares_gpu(Communicator& host, int device);

/// Makes `device` the calling thread's GPU as long as this object lives. Errors are not checked here: the calls that
/// follow fail, too.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    ::cudaGetDevice(&before_);
    ::cudaSetDevice(device);
  }
  OnDevice(OnDevice&&) = delete;
  ~OnDevice() { ::cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Calls `f`, and returns the exception that it throws as an error.
template <class F>
Result<void> tried(const F& f) {
  try {
    f();
    return {};
  } catch (const Exception& e) {
    return e.error();
  }
}

}  // namespace pharos::ml
