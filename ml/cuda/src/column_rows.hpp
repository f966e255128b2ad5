#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace pharos::ml {

/// detail::Kernels::sums_columns and so on, by the kernels of column_sums.cu. The last two throw c10::Error if CUDA
/// refuses them.
bool sums_columns(const at::Tensor& x);
at::Tensor sum_columns(const at::Tensor& x);
std::pair<at::Tensor, at::Tensor> gelu_gradient(const at::Tensor& of_gelu, const at::Tensor& before);

}  // namespace pharos::ml
