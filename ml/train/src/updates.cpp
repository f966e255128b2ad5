#include "updates.hpp"

#include <cmath>

// Each loop is written once, for both types, and compiled for more than one machine: the loader takes the best that
// this one has.
#define PHAROS_LOOP [[gnu::always_inline]] inline
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PHAROS_FOR_MACHINES [[gnu::target_clones("avx2", "default")]]
#else
#define PHAROS_FOR_MACHINES
#endif

namespace pharos::ml {
namespace {

template <class Real>
PHAROS_LOOP void adamw_loop(const AdamWUpdate& by, Real* __restrict values, const Real* __restrict gradient,
                            Real* __restrict mean, Real* __restrict square, std::size_t elements) {
  const auto beta1 = static_cast<Real>(by.beta1);
  const auto rest1 = static_cast<Real>(1 - by.beta1);
  const auto beta2 = static_cast<Real>(by.beta2);
  const auto rest2 = static_cast<Real>(1 - by.beta2);
  const auto keep = static_cast<Real>(by.keep);
  const auto size = static_cast<Real>(by.size);
  const auto correction = static_cast<Real>(by.correction);
  const auto eps = static_cast<Real>(by.eps);
  for (std::size_t i = 0; i < elements; ++i) {
    const Real g = gradient[i];
    const Real m = beta1 * mean[i] + rest1 * g;
    const Real v = beta2 * square[i] + rest2 * g * g;
    mean[i] = m;
    square[i] = v;
    values[i] = keep * values[i] - size * (m / (std::sqrt(v) * correction + eps));
  }
}

template <class Real>
PHAROS_LOOP void sgd_loop(const SgdUpdate& by, Real* __restrict values, const Real* __restrict gradient,
                          std::size_t elements) {
  const auto lr = static_cast<Real>(by.lr);
  const auto decay = static_cast<Real>(by.weight_decay);
  for (std::size_t i = 0; i < elements; ++i) values[i] -= lr * (gradient[i] + decay * values[i]);
}

template <class Real>
PHAROS_LOOP void momentum_loop(const SgdUpdate& by, Real* __restrict values, const Real* __restrict gradient,
                               Real* __restrict velocity, std::size_t elements) {
  const auto lr = static_cast<Real>(by.lr);
  const auto decay = static_cast<Real>(by.weight_decay);
  const auto momentum = static_cast<Real>(by.momentum);
  const auto own = static_cast<Real>(by.nesterov ? 1 : 0);
  const auto speed = static_cast<Real>(by.nesterov ? by.momentum : 1);
  for (std::size_t i = 0; i < elements; ++i) {
    const Real g = gradient[i] + decay * values[i];
    const Real v = momentum * velocity[i] + g;
    velocity[i] = v;
    values[i] -= lr * (own * g + speed * v);
  }
}

template <class Real>
PHAROS_LOOP void lion_loop(const LionUpdate& by, Real* __restrict values, const Real* __restrict gradient,
                           Real* __restrict mean, std::size_t elements) {
  const auto lr = static_cast<Real>(by.lr);
  const auto keep = static_cast<Real>(by.keep);
  const auto beta1 = static_cast<Real>(by.beta1);
  const auto rest1 = static_cast<Real>(1 - by.beta1);
  const auto beta2 = static_cast<Real>(by.beta2);
  const auto rest2 = static_cast<Real>(1 - by.beta2);
  for (std::size_t i = 0; i < elements; ++i) {
    const Real g = gradient[i];
    const Real c = beta1 * mean[i] + rest1 * g;
    const Real direction = c > 0 ? Real{1} : c < 0 ? Real{-1} : c * 0;  // what is no number stays none
    values[i] = keep * values[i] - lr * direction;
    mean[i] = beta2 * mean[i] + rest2 * g;
  }
}

}  // namespace

PHAROS_FOR_MACHINES
void adamw(const AdamWUpdate& by, float* values, const float* gradient, float* mean, float* square, std::size_t n) {
  adamw_loop(by, values, gradient, mean, square, n);
}
PHAROS_FOR_MACHINES
void adamw(const AdamWUpdate& by, double* values, const double* gradient, double* mean, double* square, std::size_t n) {
  adamw_loop(by, values, gradient, mean, square, n);
}
PHAROS_FOR_MACHINES
void sgd(const SgdUpdate& by, float* values, const float* gradient, std::size_t n) {
  sgd_loop(by, values, gradient, n);
}
PHAROS_FOR_MACHINES
void sgd(const SgdUpdate& by, double* values, const double* gradient, std::size_t n) {
  sgd_loop(by, values, gradient, n);
}
PHAROS_FOR_MACHINES
void momentum(const SgdUpdate& by, float* values, const float* gradient, float* velocity, std::size_t n) {
  momentum_loop(by, values, gradient, velocity, n);
}
PHAROS_FOR_MACHINES
void momentum(const SgdUpdate& by, double* values, const double* gradient, double* velocity, std::size_t n) {
  momentum_loop(by, values, gradient, velocity, n);
}
PHAROS_FOR_MACHINES
void lion(const LionUpdate& by, float* values, const float* gradient, float* mean, std::size_t n) {
  lion_loop(by, values, gradient, mean, n);
}
PHAROS_FOR_MACHINES
void lion(const LionUpdate& by, double* values, const double* gradient, double* mean, std::size_t n) {
  lion_loop(by, values, gradient, mean, n);
}

}  // namespace pharos::ml
