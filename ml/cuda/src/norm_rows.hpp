#pragma once

#include <pharos/ml/models/kernels.hpp>

namespace pharos::ml {

/// detail::Kernels::normalizes and so on, by the kernels of layer_norm.cu. The last two throw c10::Error if CUDA
/// refuses them.
bool normalizes(const at::Tensor& x);
detail::NormalizedSum normalize(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                                const at::Tensor& bias, double epsilon);
detail::NormGradient norm_gradient(const at::Tensor& of_normalized, const at::Tensor& of_sum, const at::Tensor& sum,
                                   const at::Tensor& weight, const at::Tensor& means, const at::Tensor& scales);

}  // namespace pharos::ml
