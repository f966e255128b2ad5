#include "tensors.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace pharos::ml {

std::optional<NumberType> number_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return NumberType::kFloat;
    case at::kHalf: return NumberType::kHalf;
    case at::kBFloat16: return NumberType::kBFloat16;
    default: return std::nullopt;
  }
}

cudaStream_t stream_of(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl streams{tensor.device().type()};
  return static_cast<cudaStream_t>(streams.getStreamNativeHandle(streams.getStream(tensor.device())));
}

void check(cudaError_t launched) {
  TORCH_CHECK(launched == cudaSuccess, "the GPU takes no kernel: ", ::cudaGetErrorString(launched));
}

}  // namespace pharos::ml
