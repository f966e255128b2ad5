#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/parameter_settings.hpp>
#include <pharos/ml/rule.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// Parameters for which an optimizer uses the same settings (see ParameterSettings). A value, which keeps the tensors.
struct ParameterGroup {
  std::vector<at::Tensor> parameters{};
  double weight_decay = 0;
  double lr_factor = 1;
  std::optional<Rule> rule{};
  /// Called at the beginning of each step(). If it throws, step() throws the same, and no parameter has changed.
  std::function<void()> before_step{};
};

/// Divides the trained parameters of a module into groups with the same settings. Throws what `settings` throws.
PHAROS_API std::vector<ParameterGroup> groups_of(const torch::nn::Module& module, const SettingsOf& settings);
/// Groups with the settings of decaying_matrices().
PHAROS_API std::vector<ParameterGroup> groups_of(const torch::nn::Module& module, double weight_decay);

/// Changes parameters by their gradients. Parameters without a gradient stay as they are:
///
///   Optimizer optimizer{groups_of(*model, 0.01), AdamW{.lr = 3e-4}};
///
/// Its state lies side by side for all parameters, in float or double. For half and bfloat16 parameters it also keeps a
/// float copy, and steps that. Elements that other code has written to such a parameter replace those of the copy in
/// the next step; on a GPU only if they were not written by way of .data(), which libtorch does not count. A parameter
/// that is listed twice counts once, in the group where it comes first.
///
/// All parameters are dense tensors of floating point numbers on one device, and if a group has a rule of its own, the
/// learning rate of the optimizer's rule is not 0, or the constructor throws InvalidArgument.
/// The optimizer keeps the parameters, but not the module; the destructor frees its state, and the parameters stay as
/// they are. On the CPU the same gradients give the same bits on every machine. On a GPU a step is a few launches for
/// each group, without an UpdateRule, and the host does not wait for them. One thread at a time.
class PHAROS_API Optimizer {
 public:
  Optimizer(std::vector<ParameterGroup> groups, const Rule& rule);
  Optimizer(Optimizer&&) = delete;
  ~Optimizer();

  /// Throws what a group's before_step and an UpdateRule throw, and libtorch's exceptions, for instance when there is
  /// no memory; after an exception that is not from before_step some parameters may have changed.
  void step();
  /// Makes the gradients undefined, or sets them to zeros if `set_to_none` is false.
  void zero_grad(bool set_to_none = true);

  /// The learning rate of the optimizer's rule.
  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }

  /// The state that it keeps for one parameter. The elements of the tensors are in the order of the parameter's memory.
  struct State {
    at::Tensor parameter;
    std::uint64_t steps = 0;
    std::vector<std::string> names{};  ///< what the values are: names_of() the rule
    std::vector<at::Tensor> values{};
    at::Tensor whole{};  ///< the float copy, if there is one
    // On a GPU: the parameter's version and address when `whole` was last copied to it. If either differs, other code
    // has written to the parameter since.
    std::uint64_t version = 0;
    const void* memory = nullptr;
  };
  /// The states of all parameters, in the order of the groups, valid as long as the optimizer lives. The caller may
  /// write to them, as loading a checkpoint does.
  std::span<State> states() { return states_; }

 private:
  void keep_side_by_side();
  const Rule& rule_of(const ParameterGroup& group) const { return group.rule ? *group.rule : rule_; }
  double lr_of(const ParameterGroup& group) const;
  template <class Real>
  void step_one(State& state, const ParameterGroup& group);
  void step_on_device(std::span<State> states, const ParameterGroup& group);
  void step_by_own_rule(State& state, const UpdateRule& rule, const ParameterGroup& group);

  const std::vector<ParameterGroup> groups_;
  const Rule rule_;
  double lr_;
  const double begin_lr_;
  at::Device device_{at::kCPU};
  std::vector<State> states_;
};

}  // namespace pharos::ml
