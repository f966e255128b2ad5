#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/training.hpp>

#include "module/norms.hpp"
#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

constexpr double kScaleMax = 16777216;  // 2^24

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

/// Calls f with the gradient of each parameter, once even if the parameter is listed several times.
template <class F>
void for_gradients(const std::vector<at::Tensor>& parameters, const F& f) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const void*> seen;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined() && seen.insert(each.unsafeGetTensorImpl()).second) f(each.mutable_grad());
  }
}

}  // namespace

double clip_norm(const std::vector<at::Tensor>& parameters, double max) {
  std::vector<at::Tensor> norms;
  for_gradients(parameters, [&](const at::Tensor& gradient) {
    const at::Tensor values = gradient.is_sparse() ? gradient.coalesce().values() : gradient;
    norms.push_back(values.norm(2, at::kDouble));
  });
  const double norm = std::sqrt(sum_of_squares(norms));
  if (!std::isfinite(norm) || norm <= max) return norm;
  for_gradients(parameters, [&](const at::Tensor& gradient) { gradient.mul_(max / norm); });
  return norm;
}

void clip_values(const std::vector<at::Tensor>& parameters, double max) {
  for_gradients(parameters, [&](const at::Tensor& gradient) { gradient.clamp_(-max, max); });
}

// ---- GradScaler

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss * state_.scale;
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters) {
  const bool finite = unscale_all(parameters);
  adapt(finite);
  return finite;
}

bool GradScaler::unscale(const std::vector<at::Tensor>& parameters, Communicator& ranks) {
  std::int64_t finite = unscale_all(parameters) ? 1 : 0;
  ranks.all_reduce(std::span{&finite, 1}, Reduction::kMin);
  adapt(finite != 0);
  return finite != 0;
}

bool GradScaler::unscale_all(const std::vector<at::Tensor>& parameters) const {
  std::vector<at::Tensor> finite;
  for_gradients(parameters, [&](at::Tensor& gradient) {
    if (is_half(gradient)) gradient = gradient.to(at::kFloat);
    gradient.mul_(1 / state_.scale);
    finite.push_back(at::isfinite(gradient).all());
  });
  return finite.empty() || at::stack(finite).all().item<bool>();
}

void GradScaler::adapt(bool finite) {
  if (!finite) {
    state_.scale /= 2;
    state_.good_steps = 0;
  } else if (++state_.good_steps == options_.steps_until_growth) {
    state_.scale = std::max(state_.scale, std::min(2 * state_.scale, kScaleMax));
    state_.good_steps = 0;
  }
}

// ---- Ema

Ema::Ema(const torch::nn::Module& module, double decay) : decay_{decay} {
  for (const NamedTensor& each : parameters_of(module)) {
    const at::Tensor own = each.tensor.detach();
    pairs_.push_back({each.name, each.tensor, is_half(own) ? own.to(at::kFloat) : own.clone(), false});
  }
  for (const NamedTensor& each : buffers_of(module))
    pairs_.push_back({each.name, each.tensor, each.tensor.detach().clone(), true});
}

Ema::~Ema() = default;

void Ema::update() {
  const at::NoGradGuard no_grad;
  for (const Pair& pair : pairs_) {
    if (pair.is_buffer) {
      pair.mean.copy_(pair.own);
    } else {
      pair.mean.lerp_(pair.own.to(pair.mean.scalar_type()), 1 - decay_);
    }
  }
}

std::vector<Ema::Mean> Ema::means() const {
  std::vector<Mean> means;
  for (const Pair& each : pairs_) means.push_back({each.name, each.mean});
  return means;
}

Ema::Applied Ema::apply() const {
  return Applied{*this};
}

Ema::Applied::Applied(const Ema& ema) {
  const at::NoGradGuard no_grad;
  for (const Pair& pair : ema.pairs_) {
    kept_.push_back({pair.own, pair.own.detach().clone()});
    pair.own.copy_(pair.mean);
  }
}
Ema::Applied::~Applied() {
  const at::NoGradGuard no_grad;
  for (const Kept& each : kept_) each.own.copy_(each.values);
}

}  // namespace pharos::ml
