#pragma once

#include <variant>

/// The rules by which an Optimizer changes parameters.
namespace pharos::ml {

/// Adam with weight decay that is decoupled from the gradient (Loshchilov and Hutter, 2019).
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};
/// Stochastic gradient descent, with momentum if `momentum` is not 0. Weight decay is added to the gradient.
struct Sgd {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;
};
/// Each element moves by the same amount, in the direction of a mean of gradients (Chen and others, 2023). Its state is
/// half as large as that of AdamW.
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
};
using Rule = std::variant<AdamW, Sgd, Lion>;

}  // namespace pharos::ml
