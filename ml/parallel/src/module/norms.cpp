#include "module/norms.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>

namespace pharos::ml {

at::Tensor norms_of(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return {};
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const at::Tensor& each : gradients) values.push_back(each.is_sparse() ? each.coalesce().values() : each);
  return at::stack(at::_foreach_norm(values, 2, at::kDouble));
}

double sum_of_squares(std::span<const double> norms) {
  double squares = 0;
  for (const double each : norms) squares += each * each;
  return squares;
}

void multiply(const std::vector<at::Tensor>& gradients, double factor) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(gradients, factor);
}

std::vector<double> on_host(const at::Tensor& numbers) {
  if (!numbers.defined()) return {};
  const at::Tensor all = numbers.cpu();
  const double* const first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

}  // namespace pharos::ml
