#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <pharos/base/export.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// Parameters that an optimizer treats alike.
struct ParameterGroup {
  std::vector<at::Tensor> parameters{};
  double weight_decay = 0;
  double lr_factor = 1;
  /// Called before they are changed. What it throws step() throws, and has changed nothing.
  std::function<void()> before_step{};
};

/// Two groups: what has two dimensions or more decays; biases and what norms learn does not.
PHAROS_API std::vector<ParameterGroup> groups_of(const torch::nn::Module& module, double weight_decay);

// How parameters follow their gradients.

/// Adam with decay beside the gradient (Loshchilov and Hutter, 2019).
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
/// Stochastic gradient descent, with momentum if there is some. Decay is added to the gradient.
struct Sgd {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;
};
/// Steps of one size, in the direction of a mean (Chen and others, 2023). Keeps half of what AdamW does.
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
};
using Rule = std::variant<AdamW, Sgd, Lion>;

/// Changes parameters by their gradients; those without one stay as they are:
///
///   Optimizer optimizer{groups_of(*model, 0.01), AdamW{.lr = 3e-4}};
///
/// What it keeps of all parameters lies side by side, in float at least: of half and bfloat16 parameters it keeps a
/// float copy, too, which counts where nobody else has written to them. A parameter that is there twice counts once.
/// The same gradients give the same bits on the CPU of every machine. All parameters are on one device; on a GPU a step
/// is a few launches for each group, and waits for nothing; what is written to half parameters by way of .data() does
/// not count there.
class PHAROS_API Optimizer {
 public:
  Optimizer(std::vector<ParameterGroup> groups, const Rule& rule);
  Optimizer(Optimizer&&) = delete;
  ~Optimizer();

  void step();
  /// By default gradients are undefined afterwards.
  void zero_grad(bool set_to_none = true);

  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }

  /// What it keeps of a parameter, whose elements are in the order of the parameter's memory.
  struct State {
    at::Tensor parameter;
    std::uint64_t steps = 0;
    std::vector<at::Tensor> values{};  ///< one for each of names()
    at::Tensor whole{};                ///< the float copy, if there is one
    // On a GPU: the parameter's version and address when `whole` was last copied to it. When either differs, somebody
    // else has written the parameter since.
    std::uint64_t version = 0;
    const void* memory = nullptr;
  };
  /// In the order of the groups. May be written to, as a checkpoint does.
  std::span<State> states() { return states_; }
  std::vector<std::string_view> names() const;

 private:
  void keep_side_by_side();
  template <class Real>
  void step_one(State& state, const ParameterGroup& group);
  void step_on_device(std::span<State> states, const ParameterGroup& group);

  const std::vector<ParameterGroup> groups_;
  const Rule rule_;
  double lr_;
  at::Device device_{at::kCPU};
  std::vector<State> states_;
};

}  // namespace pharos::ml
