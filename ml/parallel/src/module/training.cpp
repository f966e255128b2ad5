#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "module/norms.hpp"
#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

constexpr double kScaleMax = 16777216;  // 2^24

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

/// The gradient of each parameter, once even if the parameter is listed several times.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::unordered_set<const void*> seen;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined() && seen.insert(each.unsafeGetTensorImpl()).second) gradients.push_back(each.grad());
  }
  return gradients;
}

}  // namespace

double clip_norm(const std::vector<at::Tensor>& parameters, double max) {
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  const double norm = std::sqrt(sum_of_squares(on_host(norms_of(gradients))));
  if (std::isfinite(norm) && norm > max) multiply(gradients, max / norm);
  return norm;
}

void clip_values(const std::vector<at::Tensor>& parameters, double max) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : gradients_of(parameters)) each.clamp_(-max, max);
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
  for (const at::Tensor& each : parameters) {
    at::Tensor& gradient = each.mutable_grad();
    if (gradient.defined() && is_half(gradient)) gradient = gradient.to(at::kFloat);
  }
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  // One pass reads, and one writes. A norm is finite exactly if all elements are, since it is computed in doubles.
  const std::vector<double> norms = on_host(norms_of(gradients));
  multiply(gradients, 1 / state_.scale);
  return std::ranges::all_of(norms, [](double each) { return std::isfinite(each); });
}

void GradScaler::adapt(bool are_finite) {
  if (!are_finite) {
    state_.scale /= 2;
    state_.good_steps = 0;
  } else if (++state_.good_steps == options_.steps_until_growth) {
    state_.scale = std::max(state_.scale, std::min(2 * state_.scale, kScaleMax));
    state_.good_steps = 0;
  }
}

// ---- Ema

Ema::Ema(const torch::nn::Module& module, double decay) : decay_{decay} {
  for (const NamedTensor& each : parameters_of(module)) add_parameter(each.name, each.tensor);
  add_buffers(module);
}

Ema::Ema(const Sharded& sharded, const torch::nn::Module& module, double decay) : decay_{decay} {
  for (const Sharded::Slice& each : sharded.slices()) add_parameter(each.name, each.values);
  add_buffers(module);
}

void Ema::add_parameter(const std::string& name, const at::Tensor& own) {
  pairs_.push_back({name, own, is_half(own) ? own.detach().to(at::kFloat) : own.detach().clone(), false});
}
void Ema::add_buffers(const torch::nn::Module& module) {
  for (const NamedTensor& each : buffers_of(module))
    pairs_.push_back({each.name, each.tensor, each.tensor.detach().clone(), true});
}

Ema::~Ema() = default;

void Ema::update() {
  move_means(1 - decay_);
}
void Ema::reset() {
  move_means(1);
}

/// Moves each mean by this share of its distance from the present value. Floats are moved in a few launches for all.
void Ema::move_means(double share) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> values;
  for (const Pair& pair : pairs_) {
    if (pair.is_buffer) {
      pair.mean.copy_(pair.own);
    } else {
      means.push_back(pair.mean);
      values.push_back(pair.own.to(pair.mean.scalar_type()));
    }
  }
  if (!means.empty()) at::_foreach_lerp_(means, values, share);
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
