#pragma once

#include <cstddef>

/// What optimizers do to the elements of a parameter. The same bits wherever they run.
namespace pharos::ml {

struct AdamWUpdate {
  double beta1;
  double beta2;
  double keep;        ///< of the value: 1 - lr * weight_decay
  double size;        ///< lr / (1 - beta1^step)
  double correction;  ///< 1 / sqrt(1 - beta2^step)
  double eps;
};
void adamw(const AdamWUpdate& by, float* values, const float* gradient, float* mean, float* square, std::size_t n);
void adamw(const AdamWUpdate& by, double* values, const double* gradient, double* mean, double* square, std::size_t n);

struct SgdUpdate {
  double lr;
  double weight_decay;
  double momentum;
  bool nesterov;
};
void sgd(const SgdUpdate& by, float* values, const float* gradient, std::size_t n);
void sgd(const SgdUpdate& by, double* values, const double* gradient, std::size_t n);
void momentum(const SgdUpdate& by, float* values, const float* gradient, float* velocity, std::size_t n);
void momentum(const SgdUpdate& by, double* values, const double* gradient, double* velocity, std::size_t n);

struct LionUpdate {
  double lr;
  double keep;  ///< of the value: 1 - lr * weight_decay
  double beta1;
  double beta2;
};
void lion(const LionUpdate& by, float* values, const float* gradient, float* mean, std::size_t n);
void lion(const LionUpdate& by, double* values, const double* gradient, double* mean, std::size_t n);

}  // namespace pharos::ml
