#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <pharos/base/export.hpp>

namespace at {
class Tensor;
}

/// The rules by which an Optimizer changes parameters.
namespace pharos::ml {

/// Adam with weight decay that is decoupled from the gradient (Loshchilov and Hutter, 2019).
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;

  bool operator==(const AdamW&) const = default;
};
/// Stochastic gradient descent, with momentum if `momentum` is not 0. Weight decay is added to the gradient.
struct Sgd {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;

  bool operator==(const Sgd&) const = default;
};
/// Each element moves by the same amount, in the direction of a mean of gradients (Chen and others, 2023). Its state is
/// half as large as that of AdamW.
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;

  bool operator==(const Lion&) const = default;
};

/// A rule of your own. Optimizers share it; it keeps nothing about a parameter itself, because an Optimizer does that.
///
///   class RmsProp : public ml::UpdateRule {
///    public:
///     double lr() const override { return 1e-3; }
///     std::vector<std::string> names() const override { return {"square"}; }
///     void update(const at::Tensor& values, const at::Tensor& gradient, std::span<const at::Tensor> kept,
///                 const Step& step) const override {
///       kept[0].mul_(0.99).addcmul_(gradient, gradient, 0.01);
///       values.addcdiv_(gradient, kept[0].sqrt().add_(1e-8), -step.lr);
///     }
///   };
///   ml::Optimizer optimizer{ml::groups_of(*model, 0), std::make_shared<RmsProp>()};
class PHAROS_API UpdateRule {
 public:
  UpdateRule() = default;
  UpdateRule(UpdateRule&&) = delete;
  virtual ~UpdateRule();

  /// The learning rate with which an Optimizer begins.
  virtual double lr() const = 0;
  /// The names, in checkpoints, of the tensors that are kept for each parameter. Each is as large as the parameter, and
  /// begins as zeros.
  virtual std::vector<std::string> names() const { return {}; }
  struct Step {
    std::uint64_t number = 1;  ///< The steps of this parameter, with this one.
    double lr = 0;
    double weight_decay = 0;
  };
  /// Changes the values of a parameter, and what is kept for it, in place. Called without gradients, by the thread that
  /// calls Optimizer::step(), which throws what this throws. The tensors are floats, or doubles for a parameter of
  /// doubles, and have the parameter's shape. If ranks divide the model (Sharded), each of them calls this for its own
  /// part of a parameter, and the tensors have one dimension: the rule must then treat each element by itself.
  virtual void update(const at::Tensor& values, const at::Tensor& gradient, std::span<const at::Tensor> kept,
                      const Step& step) const = 0;
};

using Rule = std::variant<AdamW, Sgd, Lion, std::shared_ptr<const UpdateRule>>;

/// The learning rate with which a rule begins.
PHAROS_API double lr_of(const Rule& rule);
/// The names of the tensors that the rule keeps for each parameter, such as "mean" and "square".
PHAROS_API std::vector<std::string> names_of(const Rule& rule);

}  // namespace pharos::ml
