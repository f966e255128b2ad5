#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <span>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/sync_batch_norm.hpp>

namespace pharos::ml {

struct SyncBatchNormImpl::Moments {
  torch::Tensor mean;
  torch::Tensor variance;
  torch::Tensor count;  // samples of all ranks, one double
};

namespace {

using torch::Tensor;
using Moments = SyncBatchNormImpl::Moments;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The dimensions of x except for that of the features.
std::vector<std::int64_t> others_of(const Tensor& x) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t i = 2; i < x.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}
/// Values of the features, in a shape that broadcasts with x.
Tensor beside(const Tensor& values, const Tensor& x) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[1] = x.size(1);
  return values.to(x.scalar_type()).view(sizes);
}
/// x in the type in which it is normalised: double, or float for all other types.
Tensor wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

/// Keeps the communicator for the backward, in the graph.
struct Ranks : torch::CustomClassHolder {
  explicit Ranks(const Communicator& its) : communicator{its} {}
  Communicator communicator;
};

/// Gathers one row from each rank.
Tensor gather_rows(Communicator& ranks, const Tensor& row) {
  Tensor rows = at::zeros({ranks.size(), row.numel()}, row.options());
  const auto elements = static_cast<std::size_t>(row.numel());
  ranks.all_gather(std::span<const double>{row.const_data_ptr<double>(), elements},
                   std::span{rows.data_ptr<double>(), elements * ranks.size()});
  return rows;
}

/// The moments over the inputs of all ranks. Means and variances are combined in double, because sums of squares would
/// lose precision for values far from zero.
Moments moments_of(Communicator& ranks, const Tensor& x) {
  const std::int64_t features = x.size(1);
  const auto others = others_of(x);
  Tensor row = at::zeros({2 * features + 1}, x.options().dtype(at::kDouble));
  if (x.numel() != 0) {
    const Tensor widest = x.to(at::kDouble);
    row.narrow(0, 0, features).copy_(widest.mean(others));
    row.narrow(0, features, features).copy_(widest.var(others, false));
    const std::int64_t samples = x.numel() / features;
    row[2 * features].fill_(static_cast<double>(samples));
  }
  const Tensor rows = gather_rows(ranks, row);
  const Tensor means = rows.narrow(1, 0, features);
  const Tensor counts = rows.narrow(1, 2 * features, 1);
  const Tensor count = counts.sum();
  const Tensor divisor = count.clamp_min(1);
  const Tensor mean = (means * counts).sum(0) / divisor;
  const Tensor variance = ((rows.narrow(1, features, features) + (means - mean).pow(2)) * counts).sum(0) / divisor;
  return {mean, variance, count};
}

struct Normalise : torch::autograd::Function<Normalise> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& mean, const Tensor& variance, const Tensor& count, double eps,
                        const c10::intrusive_ptr<Ranks>& ranks) {
    const Tensor scale = (variance + eps).rsqrt();
    const Tensor own = wide(x);
    const Tensor normal = (own - beside(mean, own)) * beside(scale, own);
    context->save_for_backward({normal, weight, scale});
    context->saved_data["count"] = count;
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    context->saved_data["type"] = static_cast<std::int64_t>(x.scalar_type());
    return (normal * beside(weight, own) + beside(bias, own)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& normal = saved[0];
    const Tensor& weight = saved[1];
    const Tensor gradient = wide(gradients[0]);
    const auto ranks = c10::static_intrusive_pointer_cast<Ranks>(context->saved_data["ranks"].toCapsule());
    const auto others = others_of(normal);
    const std::int64_t features = normal.size(1);
    const Tensor row = at::zeros({2 * features}, normal.options().dtype(at::kDouble));
    row.narrow(0, 0, features).copy_(gradient.to(at::kDouble).sum(others));
    row.narrow(0, features, features).copy_((gradient * normal).to(at::kDouble).sum(others));
    const Tensor means =
        gather_rows(ranks->communicator, row).sum(0) / context->saved_data["count"].toTensor().clamp_min(1);
    const Tensor of_x = (gradient - beside(means.narrow(0, 0, features), gradient) -
                         normal * beside(means.narrow(0, features, features), gradient)) *
                        beside(saved[2] * weight, gradient);
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    // The gradients of weight and bias are those of this rank's loss alone. Ddp reduces them with all other gradients.
    const Tensor of_weight = row.narrow(0, features, features).to(weight.scalar_type());
    const Tensor of_bias = row.narrow(0, 0, features).to(weight.scalar_type());
    return {of_x.to(type), of_weight, of_bias, Tensor{}, Tensor{}, Tensor{}, Tensor{}, Tensor{}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const Communicator& ranks, std::int64_t features,
                                     const SyncBatchNormOptions& options)
    : weight{register_parameter("weight", options.affine ? at::ones({features}) : Tensor{}, options.affine)},
      bias{register_parameter("bias", options.affine ? at::zeros({features}) : Tensor{}, options.affine)},
      running_mean{register_buffer("running_mean", at::zeros({features}))},
      running_var{register_buffer("running_var", at::ones({features}))},
      num_batches_tracked{register_buffer("num_batches_tracked", at::zeros({}, at::TensorOptions{}.dtype(at::kLong)))},
      ranks_{ranks},
      options_{options} {}

std::shared_ptr<torch::nn::Module> SyncBatchNormImpl::clone(const std::optional<torch::Device>& device) const {
  const at::NoGradGuard no_grad;
  auto copy = std::make_shared<SyncBatchNormImpl>(ranks_, running_mean.numel(), options_);
  copy->train(is_training());
  copy->to(running_mean.scalar_type());
  const auto put = [](const auto& to, const auto& from) {
    for (const auto& each : from) {
      if (!each.value().defined()) continue;
      to[each.key()].copy_(each.value());
      to[each.key()].set_requires_grad(each.value().requires_grad());
    }
  };
  put(copy->named_parameters(), named_parameters());
  put(copy->named_buffers(), named_buffers());
  if (device) copy->to(*device);
  return copy;
}

/// Computes the moments of this step, and updates the running ones.
SyncBatchNormImpl::Moments SyncBatchNormImpl::take_moments(const Tensor& x) {
  const at::NoGradGuard no_grad;
  Moments found = moments_of(ranks_of(x.device()), x);
  // Without samples there is nothing to learn from. The host does not ask a device whether there were some.
  const Tensor has_samples = found.count.gt(0).to(at::kDouble);
  num_batches_tracked.add_(has_samples.to(at::kLong));
  const Tensor part = options_.momentum ? has_samples * *options_.momentum
                                        : has_samples / num_batches_tracked.clamp_min(1).to(at::kDouble);
  running_mean.lerp_(found.mean.to(running_mean.scalar_type()), part.to(running_mean.scalar_type()));
  const Tensor unbiased = found.variance * (found.count / (found.count - 1).clamp_min(1));
  running_var.lerp_(unbiased.to(running_var.scalar_type()), part.to(running_var.scalar_type()));
  return found;
}

/// The communicator for data on this device. The first use of a GPU makes it, on all ranks together.
Communicator& SyncBatchNormImpl::ranks_of(at::Device device) {
  if (device.is_cpu()) return ranks_;
  if (!gpus_) gpus_ = communicator_on(device, ranks_);
  return *gpus_;
}

Tensor SyncBatchNormImpl::forward(const Tensor& x) {
  if (x.dim() < 2 || x.size(1) != running_mean.numel()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "a batch of " + std::to_string(x.dim()) + " dimensions does not fit " +
                          std::to_string(running_mean.numel()) + " features",
                      "Give (batch, features, …)."});
  }
  if (!is_training()) {
    return at::batch_norm(x, weight, bias, running_mean, running_var, false, 0, options_.eps, false);
  }
  const Moments all = take_moments(x);
  const Tensor scale = options_.affine ? weight : at::ones_like(running_mean);
  const Tensor shift = options_.affine ? bias : at::zeros_like(running_mean);
  return Normalise::apply(x, scale, shift, all.mean, all.variance, all.count, options_.eps,
                          c10::make_intrusive<Ranks>(ranks_of(x.device())));
}

}  // namespace pharos::ml
