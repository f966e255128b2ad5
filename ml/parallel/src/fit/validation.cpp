#include "fit/validation.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <string_view>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/train_context.hpp>

#include "fit/logged_means.hpp"
#include "fit/precision.hpp"

namespace pharos::ml {
namespace {

constexpr std::string_view kPrefix = "validation_";

/// The name under which a number of a validation is reported. `metric`: the one that matters, for which a number
/// without a name stands.
std::string validated(const std::string& name, const std::string& metric) {
  if (name.empty() && metric.starts_with(kPrefix)) return metric;
  return std::string{kPrefix} + (name.empty() ? metric : name);
}

}  // namespace

Validation::Validation(TrainContext& context, Learner& learner, const FitOptions& options, LoaderOptions loading,
                       LoggedMeans& logged)
    : context_{context},
      learner_{learner},
      options_{options},
      data_{learner.validation_data()},
      loading_{std::move(loading)},
      logged_{logged},
      measures_{learner.measures()} {
  if (data_ == nullptr) return;
  if (data_->size() < context.size()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the validation data has " + std::to_string(data_->size()) +
                          " samples, which are fewer than the " + std::to_string(context.size()) + " ranks",
                      "Give more validation samples, or validate inside of training_step()."});
  }
  loading_.order = Order::in_turn(data_->size());
  loading_.tail = Tail::kUneven;
}

Metrics Validation::run() {
  const at::NoGradGuard no_grad;
  learner_.module().eval();
  logged_.clear();
  for (const NamedMeasure& each : measures_) each.measure->reset();
  Loader loader{data_, loading_};
  double samples = 0;
  while (const auto batch = loader.next()) {
    add_batch(*batch);
    samples += static_cast<double>(batch->samples);
    if (options_.dry_run) break;
  }
  const Metrics means = logged_.take();
  Metrics own;
  for (const auto& [name, mean] : means.entries()) own.set(validated(name, context_.metric()), mean);
  Metrics all = context_.mean(own, samples);
  for (const auto& [name, measure] : measures_) {
    measure->set_counts(true);
    const std::string reported = validated(name, context_.metric());
    if (all.find(reported) != nullptr) {
      throw_error(Error{ErrorCode::kInvalidArgument, "a validation reports \"" + reported + "\" twice",
                        "Give the measure, or the mean, another name."});
    }
    all.set(reported, measure->value(context_.communicator()));
  }
  return all;
}

/// A rank without samples takes part with a batch whose sample does not count.
void Validation::add_batch(const Batch& batch) {
  logged_.begin_batch(static_cast<double>(batch.samples));
  for (const NamedMeasure& each : measures_) each.measure->set_counts(batch.samples > 0);
  const auto autocast = autocast_of(learner_.device(), options_);
  const Metrics of_batch = learner_.validation_step(batch);
  for (const auto& [name, mean] : of_batch.entries()) {
    logged_.log(name, at::scalar_tensor(mean, at::kDouble));
  }
}

}  // namespace pharos::ml
