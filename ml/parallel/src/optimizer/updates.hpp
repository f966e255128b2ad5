#pragma once

#include <cstddef>
#include <variant>

/// The loops in which optimizers change the elements of a parameter. They give the same bits on every machine.
/// Optimizer::step() calls them, on several threads at once for parts that do not overlap; they cannot fail. The
/// structs are values, and a Run does not own its memory.
namespace pharos::ml {

struct AdamWUpdate {
  double beta1;
  double beta2;
  double keep;        ///< factor of the value: 1 - lr * weight_decay
  double size;        ///< lr / (1 - beta1^step)
  double correction;  ///< 1 / sqrt(1 - beta2^step)
  double eps;
};
struct SgdUpdate {
  double lr;
  double weight_decay;
};
struct MomentumUpdate {
  double lr;
  double weight_decay;
  double momentum;
  bool nesterov;
};
struct LionUpdate {
  double lr;
  double keep;  ///< factor of the value: 1 - lr * weight_decay
  double beta1;
  double beta2;
};
using Update = std::variant<AdamWUpdate, SgdUpdate, MomentumUpdate, LionUpdate>;

/// A part of a parameter, and the optimizer's state for it: mean and square, velocity, mean, or nothing.
template <class Real>
struct Run {
  Real* values;
  const Real* gradient;
  Real* kept[2];
  std::size_t elements;
};

void update(const Update& by, const Run<float>& run);
void update(const Update& by, const Run<double>& run);

}  // namespace pharos::ml
