#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include <pharos/ml/training.hpp>

#include "parameters.hpp"

namespace pharos::ml {
namespace {

constexpr double kScaleMax = 16777216;  // 2^24

template <class F>
void for_gradients(const std::vector<at::Tensor>& parameters, const F& f) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined()) f(each.grad());
  }
}

void exchange_values(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor kept = a.clone();
  a.copy_(b);
  b.copy_(kept);
}

}  // namespace

double clip_norm(const std::vector<at::Tensor>& parameters, double max) {
  double squares = 0;
  for_gradients(parameters, [&](const at::Tensor& gradient) {
    const double norm = gradient.norm(2, at::kDouble).item<double>();
    squares += norm * norm;
  });
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= max) return norm;
  for_gradients(parameters, [&](const at::Tensor& gradient) { gradient.mul_(max / norm); });
  return norm;
}

void clip_values(const std::vector<at::Tensor>& parameters, double max) {
  for_gradients(parameters, [&](const at::Tensor& gradient) { gradient.clamp_(-max, max); });
}

// ---- GradScaler

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss * scale_;
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters) {
  bool finite = true;
  for_gradients(parameters, [&](const at::Tensor& gradient) {
    gradient.mul_(1 / scale_);
    finite = finite && at::isfinite(gradient).all().item<bool>();
  });
  if (!finite) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.steps_until_growth) {
    scale_ = std::min(2 * scale_, kScaleMax);
    good_steps_ = 0;
  }
  return finite;
}

// ---- Ema

Ema::Ema(const torch::nn::Module& module, double decay) : decay_{decay} {
  for (const NamedTensor& each : parameters_of(module))
    pairs_.push_back({each.tensor, each.tensor.detach().clone(), false});
  for (const NamedTensor& each : buffers_of(module))
    pairs_.push_back({each.tensor, each.tensor.detach().clone(), true});
}

Ema::~Ema() = default;

void Ema::update() {
  const at::NoGradGuard no_grad;
  for (const Pair& pair : pairs_) {
    if (pair.is_buffer) {
      pair.mean.copy_(pair.own);
    } else {
      pair.mean.lerp_(pair.own, 1 - decay_);
    }
  }
}

Ema::Applied Ema::apply() {
  return Applied{*this};
}

void Ema::exchange() {
  const at::NoGradGuard no_grad;
  for (const Pair& pair : pairs_) exchange_values(pair.own, pair.mean);
}

Ema::Applied::Applied(Ema& ema) : ema_{ema} {
  ema_.exchange();
}
Ema::Applied::~Applied() {
  ema_.exchange();
}

}  // namespace pharos::ml
