#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace pharos::ml {

/// The sum of the squares of these norms, each of which is one double. Waits for a device only once. Clipping uses it;
/// it throws nothing but what libtorch throws.
double sum_of_squares(const std::vector<at::Tensor>& norms);

}  // namespace pharos::ml
