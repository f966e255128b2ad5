#include "column_rows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include "column_sums.hpp"
#include "tensors.hpp"

namespace pharos::ml {

using at::Tensor;

static Tensor sum(ColumnSums what, const Tensor& x) {
  const NumberType type = *number_type(x.scalar_type());
  what.rows = x.numel() / x.size(-1);
  what.columns = x.size(-1);
  what.part_count = column_part_count(type, what.rows, what.columns);
  Tensor sums = at::empty({what.columns}, x.options());
  const Tensor parts = at::empty({what.part_count, what.columns}, x.options().dtype(at::kFloat));
  what.sums = sums.mutable_data_ptr();
  what.parts = parts.mutable_data_ptr<float>();
  check(sum_columns(type, what, stream_of(x)));
  return sums;
}

bool sums_columns(const Tensor& x) {
  const auto type = number_type(x.scalar_type());
  return type && sums_columns(*type, x.size(-1));
}

Tensor sum_columns(const Tensor& x) {
  const c10::DeviceGuard guard{x.device()};
  return sum({.rows_of = x.const_data_ptr()}, x);
}

std::pair<Tensor, Tensor> gelu_gradient(const Tensor& of_gelu, const Tensor& before) {
  const c10::DeviceGuard guard{before.device()};
  Tensor of_before = at::empty_like(before);
  Tensor of_bias = sum({.rows_of = of_gelu.const_data_ptr(),
                        .before_gelu = before.const_data_ptr(),
                        .of_before = of_before.mutable_data_ptr()},
                       before);
  return {std::move(of_before), std::move(of_bias)};
}

}  // namespace pharos::ml
