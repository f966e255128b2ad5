#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <utility>

#include <pharos/base/export.hpp>

namespace pharos::ml::detail {

/// The sum of two tensors, normalised, and what the gradients need.
struct NormalizedSum {
  at::Tensor sum;
  at::Tensor normalized;
  at::Tensor means;   ///< a float for each row
  at::Tensor scales;  ///< 1 / standard deviation
};
struct NormGradient {
  at::Tensor x;  ///< and of the other tensor of the sum
  at::Tensor weight;
  at::Tensor bias;
};

/// What a library offers for a kind of device. Its functions run on the current stream, and do not wait for it. Tensors
/// are contiguous; floats or half-precision numbers, all of one type.
struct Kernels {
  /// Returns the cross entropy of each row of scores as floats; 0 for rows whose target is `ignored`. With `gradients`
  /// the scores become the gradient of the sum of these losses. Targets are 64-bit.
  at::Tensor (*score_losses)(at::Tensor& scores, const at::Tensor& targets, std::int64_t ignored, bool gradients);

  /// Whether the next two take such rows.
  bool (*normalizes)(const at::Tensor& x);
  /// `branch` may be undefined: the sum is then `x`.
  NormalizedSum (*normalize)(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                             const at::Tensor& bias, double epsilon);
  /// `of_sum`, the gradient of what the sum is used for besides, may be undefined.
  NormGradient (*norm_gradient)(const at::Tensor& of_normalized, const at::Tensor& of_sum, const at::Tensor& sum,
                                const at::Tensor& weight, const at::Tensor& means, const at::Tensor& scales);

  /// Whether the next two take such rows.
  bool (*sums_columns)(const at::Tensor& x);
  /// The sum over all dimensions but the last.
  at::Tensor (*sum_columns)(const at::Tensor& x);
  /// The gradients of `before`, which went through gelu in its form with tanh, and of the bias that it contains.
  std::pair<at::Tensor, at::Tensor> (*gelu_gradient)(const at::Tensor& of_gelu, const at::Tensor& before);
};

/// A library registers its kernels when it is loaded. They must stay. Any thread.
PHAROS_API void register_kernels(at::DeviceType device, const Kernels& kernels);
/// Returns the kernels for a kind of device; nullptr if there are none.
const Kernels* kernels_for(at::DeviceType device);

}  // namespace pharos::ml::detail
