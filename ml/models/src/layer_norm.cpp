#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include <pharos/ml/layer_norm.hpp>
#include <pharos/ml/models/kernels.hpp>

#include "suits.hpp"

namespace pharos::ml {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The kernels, if they take these tensors.
const detail::Kernels* kernels_for(const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias) {
  const auto* const kernels = kernels_outside_autocast(x);
  if (kernels == nullptr) return nullptr;
  const auto suits_columns = [&](const Tensor& each) {
    return suits(each, x) && each.dim() == 1 && each.size(0) == x.size(-1);
  };
  const bool can = suits(x, x) && suits_columns(weight) && suits_columns(bias) &&
                   (!branch.defined() || suits(branch, x)) && kernels->normalizes(x);
  return can ? kernels : nullptr;
}

/// By kernels. Gives the sum and the norm, or only the norm if there is no branch.
struct FusedNorm : torch::autograd::Function<FusedNorm> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& branch,
                               const Tensor& weight, const Tensor& bias, double epsilon) {
    const auto* const kernels = detail::kernels_for(x.device().type());
    auto done = kernels->normalize(x, branch.value_or(Tensor{}), weight, bias, epsilon);
    context->save_for_backward({done.sum, weight, done.means, done.scales});
    context->set_materialize_grads(false);
    context->saved_data["adds"] = branch.has_value();
    if (!branch) return {done.normalized};
    return {done.sum, done.normalized};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "the kernel of a layer norm has no second derivative");
    const bool adds = context->saved_data["adds"].toBool();
    const Tensor& of_norm = gradients.back();
    const Tensor of_sum = adds ? gradients.front() : Tensor{};
    if (!of_norm.defined()) return {of_sum, of_sum, Tensor{}, Tensor{}, Tensor{}};
    const variable_list saved = context->get_saved_variables();
    const auto done = detail::kernels_for(of_norm.device().type())
                          ->norm_gradient(of_norm.contiguous(), of_sum.defined() ? of_sum.contiguous() : of_sum,
                                          saved[0], saved[1], saved[2], saved[3]);
    return {done.x, adds ? done.x : Tensor{}, done.weight, done.bias, Tensor{}};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  TORCH_CHECK(x.dim() >= 1, "layer_norm() got a tensor without dimensions");
  if (kernels_for(x, {}, weight, bias) == nullptr) return at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
  return FusedNorm::apply(x, std::optional<Tensor>{}, weight, bias, epsilon)[0];
}

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                          double epsilon) {
  TORCH_CHECK(x.dim() >= 1 && branch.sizes() == x.sizes(), "add_layer_norm() got x of sizes ", x.sizes(),
              " and a branch of sizes ", branch.sizes(), ": they must be the same, with a dimension");
  if (kernels_for(x, branch, weight, bias) == nullptr) {
    const Tensor sum = x + branch;
    return {sum, at::layer_norm(sum, {sum.size(-1)}, weight, bias, epsilon)};
  }
  const variable_list both = FusedNorm::apply(x, std::optional{branch}, weight, bias, epsilon);
  return {both[0], both[1]};
}

}  // namespace pharos::ml
