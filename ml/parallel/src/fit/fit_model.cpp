#include "fit/fit_model.hpp"

#include <ATen/ops/isfinite.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <pharos/actors/exceptions.hpp>

#include "module/norms.hpp"

namespace pharos::ml {
namespace {

using at::Tensor;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

FitModel::FitModel(torch::nn::Module& module, const FitOptions& options)
    : module_{module}, checks_numbers_{options.check_numbers} {
  if (options.bf16) halve(module.buffers());
}

void FitModel::halve(const std::vector<Tensor>& tensors) {
  for (const Tensor& each : tensors) {
    if (each.is_floating_point()) each.set_data(each.to(at::kBFloat16));
  }
}

FitModel::Backward FitModel::backward(const std::vector<Batch>& batches,
                                      const std::function<Tensor(const Batch&)>& loss_of, double scale) {
  Backward done;
  Duration waited = -waited_for_parameters();  // waits of a validation are not part of this step
  double samples = 0;
  for (const Batch& each : batches) samples += static_cast<double>(each.samples);
  const bool takes_part = samples > 0 || is_divided();
  for (std::size_t i = 0; takes_part && i < batches.size(); ++i) {
    const double share =
        samples > 0 ? static_cast<double>(batches[i].samples) / samples : 1.0 / static_cast<double>(batches.size());
    const Duration waited_before = waited_for_parameters();
    Tensor loss;
    const Duration took = duration_of([&] { loss = loss_of(batches[i]) * share; });
    done.forward_seconds += seconds(took - (waited_for_parameters() - waited_before));
    done.losses.emplace_back(loss);
    if (scale != 1) loss = loss.to(c10::promoteTypes(loss.scalar_type(), at::kFloat)) * scale;
    waited += backward_of_batch(loss, samples, i + 1 == batches.size());
  }
  if (!takes_part) waited += backward_of_batch(Tensor{}, 0, true);
  done.waited_seconds = seconds(waited);
  return done;
}

FitModel::Numbers FitModel::numbers(const Backward& done, bool with_norm, Communicator& ranks) const {
  Numbers numbers;
  if (with_norm) {
    double squares = sum_of_squares(on_host(norms_of(own_gradients())));
    if (is_divided()) ranks.all_reduce(std::span{&squares, 1});
    numbers.norm = std::sqrt(squares);
  }
  for (const Reading& each : done.losses) numbers.loss += each.value();
  return numbers;
}

void FitModel::scale(double factor) const {
  if (factor != 1) multiply(own_gradients(), factor);
}

std::vector<NamedTensor> FitModel::gradients() const {
  std::vector<NamedTensor> gradients;
  for (const NamedTensor& each : own_parameters()) gradients.push_back({each.name, each.tensor.grad()});
  return gradients;
}

/// Those that are there.
std::vector<Tensor> FitModel::own_gradients() const {
  std::vector<Tensor> own;
  for (const NamedTensor& each : gradients()) {
    if (each.tensor.defined()) own.push_back(each.tensor);
  }
  return own;
}

void FitModel::check_numbers(TrainContext& context) const {
  if (!checks_numbers_ || checks_while_reducing()) return;
  check_means(context, context.step() + 1);
}

void FitModel::check_numbers_to_save(TrainContext& context) const {
  if (!checks_numbers_ || checks_while_reducing()) check_means(context, context.step());
}

void FitModel::check_means(TrainContext& context, std::uint64_t step) const {
  const std::vector<NamedTensor> parameters = parameters_of(module_);
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, gradient] : gradients()) {
    if (!gradient.defined() || at::isfinite(gradient).all().item<bool>()) continue;
    const auto found = std::ranges::find(parameters, name, &NamedTensor::name);
    first = std::min<std::int64_t>(first, found - parameters.begin());
  }
  if (is_divided()) context.communicator().all_reduce(std::span{&first, 1}, Reduction::kMin);
  if (first == std::numeric_limits<std::int64_t>::max()) return;
  throw_error(Error{ErrorCode::kFailedPrecondition,
                    "in step " + std::to_string(step) + " the gradient of \"" +
                        parameters.at(static_cast<std::size_t>(first)).name + "\" has elements that are not finite",
                    "Look at the data and the loss; a lower learning rate or clipping may help."});
}

}  // namespace pharos::ml
