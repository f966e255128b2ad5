#include "fit/fit_model.hpp"

#include <ATen/ops/isfinite.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <limits>
#include <span>

#include <pharos/actors/exceptions.hpp>

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
                                      const std::function<Tensor(const Batch&)>& loss_of) {
  Backward done;
  Duration waited = -waited_for_parameters();  // waits of a validation are not part of this step
  double samples = 0;
  for (const Batch& each : batches) samples += static_cast<double>(each.samples);
  const bool takes_part = samples > 0 || is_divided();
  std::vector<Tensor> losses;
  for (std::size_t i = 0; takes_part && i < batches.size(); ++i) {
    const double share =
        samples > 0 ? static_cast<double>(batches[i].samples) / samples : 1.0 / static_cast<double>(batches.size());
    const Duration waited_before = waited_for_parameters();
    Tensor loss;
    const Duration took = duration_of([&] { loss = loss_of(batches[i]) * share; });
    done.forward_seconds += seconds(took - (waited_for_parameters() - waited_before));
    waited += backward_of_batch(loss, samples, i + 1 == batches.size());
    losses.push_back(loss.detach());
  }
  if (!takes_part) waited += backward_of_batch(Tensor{}, 0, true);
  done.waited_seconds = seconds(waited);
  // Reading a number waits for a GPU, which therefore already has all work of the step.
  for (const Tensor& each : losses) done.loss += each.item<double>();
  return done;
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
