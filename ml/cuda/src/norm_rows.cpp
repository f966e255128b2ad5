#include "norm_rows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>

#include "layer_norm.hpp"
#include "tensors.hpp"

namespace pharos::ml {

using at::Tensor;

static std::int64_t rows_of(const Tensor& x) {
  return x.numel() / x.size(-1);
}

bool normalizes(const Tensor& x) {
  const auto type = number_type(x.scalar_type());
  return type && normalizes(*type, x.size(-1));
}

detail::NormalizedSum normalize(const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                                double epsilon) {
  const c10::DeviceGuard guard{x.device()};
  const auto floats = x.options().dtype(at::kFloat);
  detail::NormalizedSum made{.sum = branch.defined() ? at::empty_like(x) : x,
                             .normalized = at::empty_like(x),
                             .means = at::empty({rows_of(x)}, floats),
                             .scales = at::empty({rows_of(x)}, floats)};
  const NormalizedRows what{.x = x.const_data_ptr(),
                            .branch = branch.defined() ? branch.const_data_ptr() : nullptr,
                            .weight = weight.const_data_ptr(),
                            .bias = bias.const_data_ptr(),
                            .sum = branch.defined() ? made.sum.mutable_data_ptr() : nullptr,
                            .normalized = made.normalized.mutable_data_ptr(),
                            .means = made.means.mutable_data_ptr<float>(),
                            .scales = made.scales.mutable_data_ptr<float>(),
                            .rows = rows_of(x),
                            .columns = x.size(-1),
                            .epsilon = static_cast<float>(epsilon)};
  check(normalize_rows(*number_type(x.scalar_type()), what, stream_of(x)));
  return made;
}

detail::NormGradient norm_gradient(const Tensor& of_normalized, const Tensor& of_sum, const Tensor& sum,
                                   const Tensor& weight, const Tensor& means, const Tensor& scales) {
  if (sum.numel() == 0) return {at::zeros_like(sum), at::zeros_like(weight), at::zeros_like(weight)};
  const c10::DeviceGuard guard{sum.device()};
  detail::NormGradient made{.x = at::empty_like(sum), .weight = at::empty_like(weight), .bias = at::empty_like(weight)};
  NormGradients what{.of_normalized = of_normalized.const_data_ptr(),
                     .of_sum = of_sum.defined() ? of_sum.const_data_ptr() : nullptr,
                     .sum = sum.const_data_ptr(),
                     .weight = weight.const_data_ptr(),
                     .means = means.const_data_ptr<float>(),
                     .scales = scales.const_data_ptr<float>(),
                     .of_x = made.x.mutable_data_ptr(),
                     .of_weight = made.weight.mutable_data_ptr(),
                     .of_bias = made.bias.mutable_data_ptr(),
                     .rows = rows_of(sum),
                     .columns = sum.size(-1)};
  what.part_count = norm_part_count(what.rows, what.columns);
  const Tensor parts = at::empty({what.part_count, 2, what.columns}, means.options());
  what.parts = parts.mutable_data_ptr<float>();
  check(compute_norm_gradients(*number_type(sum.scalar_type()), what, stream_of(sum)));
  return made;
}

}  // namespace pharos::ml
