#pragma once

#include <memory>
#include <type_traits>

#include <pharos/base/export.hpp>
#include <pharos/ml/rule.hpp>

namespace torch::optim {
struct AdagradOptions;
struct AdamOptions;
struct AdamWOptions;
struct RMSpropOptions;
struct SGDOptions;
}  // namespace torch::optim

/// Makes a rule of an optimizer of libtorch, from its options:
///
///   ml::Optimization configure_optimizers() override {
///     return {.rule = ml::torch_rule(torch::optim::SGDOptions{0.1}.momentum(0.9).dampening(0.1))};
///   }
///
/// The step() of that optimizer then changes the parameters, with the same bits as in a loop that uses the optimizer
/// itself. Its state is that of any rule: checkpoints have it under libtorch's names ("exp_avg"), and ranks may divide
/// it, because these optimizers treat each element by itself. For half and bfloat16 parameters it steps their floats.
/// Weight decay is that of the options plus that of the parameter's group. Throws what libtorch's constructor throws
/// for options that make no sense. On a GPU a step is as many launches as in libtorch, some for each parameter.
namespace pharos::ml {

PHAROS_API std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdagradOptions& options);
PHAROS_API std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdamOptions& options);
PHAROS_API std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdamWOptions& options);
PHAROS_API std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::RMSpropOptions& options);
PHAROS_API std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::SGDOptions& options);

/// Refuses everything else when it is compiled.
template <class Options>
std::shared_ptr<const UpdateRule> torch_rule(const Options&) {
  static_assert(
      std::is_void_v<Options>,
      "torch_rule() takes the options of torch::optim's Adagrad, Adam, AdamW, RMSprop or SGD. LBFGS is none of "
      "them, because it computes the loss several times in a step and treats all parameters as one vector: "
      "use it in a loop of your own. For an optimizer of your own derive a class from ml::UpdateRule.");
  return nullptr;
}

}  // namespace pharos::ml
