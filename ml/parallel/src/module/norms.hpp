#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace pharos::ml {

/// The norms of gradients, and their scaling, for clipping and unscaling. norms_of() and multiply() take one pass over
/// the gradients each; on a device they only begin it. All throw nothing but what libtorch throws.

/// The norm of each of these tensors, one double each, on their device. Undefined if there are no tensors.
at::Tensor norms_of(const std::vector<at::Tensor>& gradients);
/// The norm of all tensors, taken as one vector, is the root of this. `norms`: those of the tensors, on the host.
double sum_of_squares(std::span<const double> norms);
/// Multiplies each element.
void multiply(const std::vector<at::Tensor>& gradients, double factor);

/// Copies doubles to the host, which waits for the device. None if the tensor is undefined.
std::vector<double> on_host(const at::Tensor& numbers);

}  // namespace pharos::ml
