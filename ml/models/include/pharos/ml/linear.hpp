#pragma once

#include <ATen/core/Tensor.h>

#include <pharos/base/export.hpp>

/// Linear layers whose bias learns. On GPUs libtorch computes the gradient of a bias by a sum that takes twice the time
/// in which memory is read. Here a kernel of Pharos does it, if the tensors are of one type, contiguous, outside of
/// autocast, and the numbers of a row take a multiple of 16 bytes. Elsewhere this is what libtorch does. Throws
/// libtorch's exceptions, also in a backward with create_graph where the kernel is used. Any thread.
namespace pharos::ml {

/// The same as torch::linear(x, weight, bias).
PHAROS_API at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// The same as torch::gelu(torch::linear(x, weight, bias), "tanh"). The kernel also computes the gradient of gelu, in
/// the same pass.
PHAROS_API at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace pharos::ml
