#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>
#include <utility>

#include <pharos/ml/linear.hpp>
#include <pharos/ml/models/kernels.hpp>

#include "suits.hpp"

namespace pharos::ml {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kForm = "tanh";  // of gelu

bool is_fused(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.dim() < 2 || weight.dim() != 2 || bias.dim() != 1 || !bias.requires_grad() || !at::GradMode::is_enabled()) {
    return false;
  }
  const auto* const kernels = kernels_outside_autocast(x);
  return kernels != nullptr && suits(x, x) && suits(weight, x) && suits(bias, x) && x.numel() != 0 &&
         kernels->sums_columns(bias);
}

template <bool kIsGelu>
struct FusedLinear : torch::autograd::Function<FusedLinear<kIsGelu>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    Tensor before = at::linear(x, weight, bias);
    if constexpr (!kIsGelu) {
      context->save_for_backward({x, weight});
      return before;
    } else {
      Tensor after = at::gelu(before, kForm);
      context->save_for_backward({x, weight, std::move(before)});
      return after;
    }
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "the kernel of a linear layer has no second derivative");
    const auto rows_of = [](const Tensor& all) { return all.reshape({-1, all.size(-1)}); };
    const variable_list saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const auto* const kernels = detail::kernels_for(x.device().type());
    Tensor gradient = gradients[0].contiguous();
    Tensor of_bias;
    if constexpr (kIsGelu) {
      std::tie(gradient, of_bias) = kernels->gelu_gradient(gradient, saved[2]);
    } else {
      of_bias = kernels->sum_columns(gradient);
    }
    const Tensor rows = rows_of(gradient);
    variable_list of_inputs{Tensor{}, Tensor{}, of_bias};
    if (context->needs_input_grad(0)) of_inputs[0] = at::mm(rows, weight).view(x.sizes());
    if (context->needs_input_grad(1)) of_inputs[1] = at::mm(rows.t(), rows_of(x));
    return of_inputs;
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return is_fused(x, weight, bias) ? FusedLinear<false>::apply(x, weight, bias) : at::linear(x, weight, bias);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return is_fused(x, weight, bias) ? FusedLinear<true>::apply(x, weight, bias)
                                   : at::gelu(at::linear(x, weight, bias), kForm);
}

}  // namespace pharos::ml
