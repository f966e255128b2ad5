#include "optimizer/updates.hpp"

#include <cmath>

// Each loop is written once, for both types, and compiled for several kinds of CPUs. The dynamic loader chooses the
// best version for the CPU of this machine.
#define PHAROS_LOOP [[gnu::always_inline]] inline
// Not with the thread sanitizer, which is not initialised yet when the loader makes that choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define PHAROS_FOR_MACHINES [[gnu::target_clones("avx2", "default")]]
#else
#define PHAROS_FOR_MACHINES
#endif

namespace pharos::ml {
namespace {

template <class Real>
PHAROS_LOOP void run_update(const AdamWUpdate& by, const Run<Real>& run) {
  Real* const __restrict values = run.values;
  const Real* const __restrict gradient = run.gradient;
  Real* const __restrict mean = run.kept[0];
  Real* const __restrict square = run.kept[1];
  const auto beta1 = static_cast<Real>(by.beta1);
  const auto rest1 = static_cast<Real>(1 - by.beta1);
  const auto beta2 = static_cast<Real>(by.beta2);
  const auto rest2 = static_cast<Real>(1 - by.beta2);
  const auto keep = static_cast<Real>(by.keep);
  const auto size = static_cast<Real>(by.size);
  const auto correction = static_cast<Real>(by.correction);
  const auto eps = static_cast<Real>(by.eps);
  for (std::size_t i = 0; i < run.elements; ++i) {
    const Real g = gradient[i];
    const Real m = beta1 * mean[i] + rest1 * g;
    const Real v = beta2 * square[i] + rest2 * g * g;
    mean[i] = m;
    square[i] = v;
    values[i] = keep * values[i] - size * (m / (std::sqrt(v) * correction + eps));
  }
}

template <class Real>
PHAROS_LOOP void run_update(const SgdUpdate& by, const Run<Real>& run) {
  Real* const __restrict values = run.values;
  const Real* const __restrict gradient = run.gradient;
  const auto lr = static_cast<Real>(by.lr);
  const auto decay = static_cast<Real>(by.weight_decay);
  for (std::size_t i = 0; i < run.elements; ++i) values[i] -= lr * (gradient[i] + decay * values[i]);
}

template <class Real>
PHAROS_LOOP void run_update(const MomentumUpdate& by, const Run<Real>& run) {
  Real* const __restrict values = run.values;
  const Real* const __restrict gradient = run.gradient;
  Real* const __restrict velocity = run.kept[0];
  const auto lr = static_cast<Real>(by.lr);
  const auto decay = static_cast<Real>(by.weight_decay);
  const auto momentum = static_cast<Real>(by.momentum);
  const auto own = static_cast<Real>(by.nesterov ? 1 : 0);
  const auto speed = static_cast<Real>(by.nesterov ? by.momentum : 1);
  for (std::size_t i = 0; i < run.elements; ++i) {
    const Real g = gradient[i] + decay * values[i];
    const Real v = momentum * velocity[i] + g;
    velocity[i] = v;
    values[i] -= lr * (own * g + speed * v);
  }
}

template <class Real>
PHAROS_LOOP void run_update(const LionUpdate& by, const Run<Real>& run) {
  Real* const __restrict values = run.values;
  const Real* const __restrict gradient = run.gradient;
  Real* const __restrict mean = run.kept[0];
  const auto lr = static_cast<Real>(by.lr);
  const auto keep = static_cast<Real>(by.keep);
  const auto beta1 = static_cast<Real>(by.beta1);
  const auto rest1 = static_cast<Real>(1 - by.beta1);
  const auto beta2 = static_cast<Real>(by.beta2);
  const auto rest2 = static_cast<Real>(1 - by.beta2);
  for (std::size_t i = 0; i < run.elements; ++i) {
    const Real g = gradient[i];
    const Real c = beta1 * mean[i] + rest1 * g;
    const Real direction = c > 0 ? Real{1} : c < 0 ? Real{-1} : c * 0;  // NaN stays NaN
    values[i] = keep * values[i] - lr * direction;
    mean[i] = beta2 * mean[i] + rest2 * g;
  }
}

/// Does not use std::visit, which would call loops that are not compiled for the CPU of this machine.
template <class Real>
PHAROS_LOOP void run_any(const Update& by, const Run<Real>& run) {
  if (const auto* const adamw = std::get_if<AdamWUpdate>(&by)) run_update(*adamw, run);
  if (const auto* const sgd = std::get_if<SgdUpdate>(&by)) run_update(*sgd, run);
  if (const auto* const momentum = std::get_if<MomentumUpdate>(&by)) run_update(*momentum, run);
  if (const auto* const lion = std::get_if<LionUpdate>(&by)) run_update(*lion, run);
}

}  // namespace

PHAROS_FOR_MACHINES
void update(const Update& by, const Run<float>& run) {
  run_any(by, run);
}
PHAROS_FOR_MACHINES
void update(const Update& by, const Run<double>& run) {
  run_any(by, run);
}

}  // namespace pharos::ml
