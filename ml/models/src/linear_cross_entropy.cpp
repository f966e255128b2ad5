#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/ml/linear_cross_entropy.hpp>
#include <pharos/ml/models/kernels.hpp>

namespace pharos::ml {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBytesOnCpu = std::int64_t{32} << 20;
constexpr std::int64_t kBytesOnDevice = std::int64_t{512} << 20;  // at least; more on a device with much memory
constexpr std::size_t kPartsOfDevice = 32;

bool is_half(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}
/// The type in which numbers of that type are exponentiated and summed.
at::ScalarType summed(at::ScalarType type) {
  return is_half(type) ? at::kFloat : type;
}

/// The type in which torch::linear() would compute.
at::ScalarType computed(const Tensor& x) {
  const at::DeviceType device = x.device().type();
  const bool is_cast = at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return is_cast ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

/// The kernels of the device, if they take such scores.
const detail::Kernels* kernels_for(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? nullptr : detail::kernels_for(x.device().type());
}

/// The bytes that scores may take on a device: a part of its memory.
std::int64_t bytes_on_device(at::Device device) {
  constexpr std::size_t kDevicesMax = 64;
  static std::array<std::atomic<std::int64_t>, kDevicesMax> known{};
  auto& bytes = known.at(static_cast<std::size_t>(device.index()));
  if (bytes != 0) return bytes;
  try {
    const auto [free, all] = at::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
    bytes = std::max(kBytesOnDevice, static_cast<std::int64_t>(all / kPartsOfDevice));
  } catch (const c10::Error&) {
    bytes = kBytesOnDevice;  // the device does not tell how much memory it has
  }
  return bytes;
}

std::int64_t rows_at_once(const Tensor& x, const Tensor& weight, const LinearCrossEntropyOptions& options) {
  if (options.rows_at_once > 0) return options.rows_at_once;
  const at::ScalarType type = kernels_for(x) != nullptr ? x.scalar_type() : summed(x.scalar_type());
  const auto row = weight.size(0) * static_cast<std::int64_t>(c10::elementSize(type));
  return std::max<std::int64_t>(
      1, (x.is_cpu() ? kBytesOnCpu : bytes_on_device(x.device())) / std::max<std::int64_t>(row, 1));
}

/// The sum of the losses of some rows, and the gradient of their scores, which is undefined if it is not asked for.
struct Scored {
  Tensor loss;
  Tensor gradient{};
  /// 1 for each row that counts and 0 for others, by which the products with the gradient, which are smaller, are to be
  /// multiplied; undefined if the gradient is 0 in rows that do not count.
  Tensor counts{};
};

Scored by_operators(const Tensor& scores, const Tensor& targets, const Tensor& counts, std::int64_t ignored,
                    bool gradient) {
  const at::ScalarType type = summed(scores.scalar_type());
  Tensor values = at::log_softmax(scores, 1, type);
  Scored scored{.loss = at::nll_loss(values, targets, {}, at::Reduction::Sum, ignored)};
  if (!gradient) return scored;
  // The probabilities, less 1 for the target.
  const Tensor wanted = (targets * counts.to(targets.scalar_type())).unsqueeze(1);
  scored.counts = counts.unsqueeze(1);
  values.exp_().scatter_add_(1, wanted, scored.counts.to(type).neg());
  scored.gradient = values.to(scores.scalar_type());
  return scored;
}

/// The sum of the losses of all rows, and its gradients, which are undefined where they are not asked for.
struct Sum {
  Tensor loss;
  Tensor x_gradient{};
  Tensor weight_gradient{};
};

/// `counts`: 1 for each row that counts, and 0 for others.
Sum sum_of(const Tensor& x, const Tensor& weight, const Tensor& targets, const Tensor& counts,
           const LinearCrossEntropyOptions& options, bool for_x, bool for_weight) {
  const at::ScalarType type = summed(x.scalar_type());
  const detail::Kernels* const kernels = kernels_for(x);
  Sum sum{.loss = at::zeros({}, x.options().dtype(type))};
  if (for_x) sum.x_gradient = at::empty_like(x);
  const std::int64_t most = rows_at_once(x, weight, options);
  const bool sums_weight_gradients = most < x.size(0);
  if (for_weight && sums_weight_gradients) sum.weight_gradient = at::zeros_like(weight, weight.options().dtype(type));
  for (std::int64_t begin = 0; begin < x.size(0); begin += most) {
    const std::int64_t rows = std::min(most, x.size(0) - begin);
    const Tensor its = x.narrow(0, begin, rows);
    const Tensor wanted = targets.narrow(0, begin, rows);
    const bool learns = for_x || for_weight;
    Tensor scores = at::mm(its, weight.t());
    Scored scored;
    if (kernels != nullptr) {
      scored = {.loss = kernels->score_losses(scores, wanted, options.ignored, learns).sum(), .gradient = scores};
    } else {
      scored = by_operators(scores, wanted, counts.narrow(0, begin, rows), options.ignored, learns);
    }
    sum.loss.add_(scored.loss);
    if (for_x) {
      Tensor to = sum.x_gradient.narrow(0, begin, rows);
      at::mm_out(to, scored.gradient, weight);
      if (scored.counts.defined()) to.mul_(scored.counts);
    }
    const auto counted = [&](const Tensor& all) { return scored.counts.defined() ? all * scored.counts : all; };
    if (for_weight && !sums_weight_gradients) {
      sum.weight_gradient = at::mm(scored.gradient.t(), counted(its));
    } else if (for_weight && type == weight.scalar_type()) {
      sum.weight_gradient.addmm_(scored.gradient.t(), counted(its));
    } else if (for_weight) {
      sum.weight_gradient.add_(at::mm(scored.gradient.t(), counted(its)));
    }
  }
  return sum;
}

/// The mean over the rows that count.
struct Loss : torch::autograd::Function<Loss> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& targets,
                        const LinearCrossEntropyOptions& options) {
    const at::ScalarType type = computed(x);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};  // the types are chosen here
    const Tensor counts = targets.ne(options.ignored);
    const Tensor number = counts.sum();
    const bool for_x = context != nullptr && x.requires_grad();
    const bool for_weight = context != nullptr && weight.requires_grad();
    const Sum sum = sum_of(x.to(type), weight.to(type), targets, counts.to(type), options, for_x, for_weight);
    if (context != nullptr) {
      context->saved_data["number"] = number;
      save(*context, "x", sum.x_gradient, x.scalar_type());
      save(*context, "weight", sum.weight_gradient, weight.scalar_type());
    }
    return sum.loss / number;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "linear_cross_entropy() has no second derivative");
    const Tensor factor = gradients[0] / context->saved_data["number"].toTensor();
    return {scaled(*context, "x", factor), scaled(*context, "weight", factor), Tensor{}, Tensor{}, Tensor{}};
  }

 private:
  static void save(AutogradContext& context, const std::string& name, const Tensor& gradient, at::ScalarType type) {
    context.saved_data[name] = gradient;
    context.saved_data[name + " type"] = static_cast<std::int64_t>(type);
  }
  static Tensor scaled(AutogradContext& context, const std::string& name, const Tensor& factor) {
    const Tensor gradient = context.saved_data[name].toTensor();
    const auto type = static_cast<at::ScalarType>(context.saved_data[name + " type"].toInt());
    return gradient.defined() ? (gradient * factor).to(type) : Tensor{};
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options) {
  TORCH_CHECK(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1),
              "linear_cross_entropy() got x of sizes ", x.sizes(), " and weight of sizes ", weight.sizes(),
              ": x must have as many columns as weight");
  const Tensor rows = x.reshape({-1, x.size(-1)});
  TORCH_CHECK(targets.numel() == rows.size(0), "linear_cross_entropy() got ", targets.numel(), " targets for ",
              rows.size(0), " rows");
  const bool learns = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  if (!learns) return Loss::forward(nullptr, rows, weight, targets.reshape({-1}).contiguous(), options);
  return Loss::apply(rows, weight, targets.reshape({-1}).contiguous(), options);
}

}  // namespace pharos::ml
