#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime.h>

#include <optional>

#include "number_type.hpp"

/// What kernels ask about tensors.
namespace pharos::ml {

/// nullopt if no kernel takes numbers of that type.
std::optional<NumberType> number_type(at::ScalarType type);
/// The current stream of the tensor's device.
cudaStream_t stream_of(const at::Tensor& tensor);
/// Throws c10::Error if CUDA has not taken a kernel.
void check(cudaError_t launched);

}  // namespace pharos::ml
