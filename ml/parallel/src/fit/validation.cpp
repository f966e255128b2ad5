#include "fit/validation.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/random_state.hpp>
#include <pharos/ml/train_context.hpp>

#include "fit/device_copies.hpp"
#include "fit/logged_means.hpp"
#include "fit/precision.hpp"

namespace pharos::ml {

LoaderOptions loading_of_pass(const TrainContext& context, Learner& learner, const FitOptions& options,
                              const Dataset& data, const std::string& what) {
  if (data.size() < context.size()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the " + what + " data has " + std::to_string(data.size()) +
                          " samples, which are fewer than the " + std::to_string(context.size()) + " ranks",
                      "Give more samples, or use fewer ranks."});
  }
  return {.batch = options.batch,
          .rank = context.rank(),
          .ranks = context.size(),
          .order = Order::in_turn(data.size()),
          .seed = context.seed(),
          .tail = Tail::kUneven,
          .threads = options.loader_threads,
          .collate = learner.collate(),
          .memory = learner.device().is_cpu() ? TakeMemory{} : &DeviceCopies::take_pinned};
}

Pass Pass::validation(Learner& learner) {
  return {"validation", learner.validation_data(), &Learner::validation_step};
}
Pass Pass::test(Learner& learner) {
  return {"test", learner.test_data(), &Learner::test_step};
}

Validation::Validation(TrainContext& context, Learner& learner, const FitOptions& options, Pass pass,
                       LoggedMeans& logged)
    : context_{context},
      learner_{learner},
      options_{options},
      pass_{std::move(pass)},
      logged_{logged},
      measures_{learner.measures()} {
  if (has_data()) loading_ = loading_of_pass(context, learner, options, *pass_.data, pass_.what);
}

/// The name under which a number is reported. The metric that matters stands for a number without a name.
std::string Validation::reported(const std::string& name) const {
  const std::string prefix = pass_.what + "_";
  if (!name.empty()) return prefix + name;
  const std::string& metric = context_.metric();
  return metric.starts_with(prefix) ? metric : prefix + metric;
}

void Validation::begin() {
  learner_.module().eval();
  logged_.clear();
  for (const NamedMeasure& each : measures_) each.measure->reset();
}

Metrics Validation::run() {
  const at::NoGradGuard no_grad;
  begin();
  Loader loader{pass_.data, loading_};
  double samples = 0;
  while (const auto batch = loader.next()) {
    add_batch(*batch);
    samples += static_cast<double>(batch->samples);
    if (options_.dry_run) break;
  }
  const Metrics means = logged_.take();
  Metrics own;
  for (const auto& [name, mean] : means.entries()) own.set(reported(name), mean);
  Metrics all = context_.mean(own, samples);
  for (const auto& [name, measure] : measures_) {
    measure->set_counts(true);
    const std::string whole = reported(name);
    if (all.find(whole) != nullptr) {
      throw_error(Error{ErrorCode::kInvalidArgument, "a " + pass_.what + " reports \"" + whole + "\" twice",
                        "Give the measure, or the mean, another name."});
    }
    all.set(whole, measure->value(context_.communicator()));
  }
  return all;
}

std::vector<std::string> Validation::names() {
  const at::NoGradGuard no_grad;
  const RandomState random = RandomState::now();
  const bool was_training = learner_.module().is_training();
  begin();
  LoaderOptions one_batch = loading_;
  one_batch.ahead = 1;
  if (const auto batch = Loader{pass_.data, one_batch}.next()) add_batch(*batch);
  std::vector<std::string> names;
  const Metrics means = logged_.take();
  for (const auto& [name, mean] : means.entries()) names.push_back(reported(name));
  for (const auto& [name, measure] : measures_) {
    names.push_back(reported(name));
    measure->reset();
  }
  learner_.module().train(was_training);
  random.restore();
  return names;
}

/// A rank without samples takes part with a batch whose sample does not count.
void Validation::add_batch(const Batch& batch) {
  logged_.begin_batch(static_cast<double>(batch.samples));
  for (const NamedMeasure& each : measures_) each.measure->set_counts(batch.samples > 0);
  const auto autocast = autocast_of(learner_.device(), options_);
  const Metrics of_batch = (learner_.*pass_.step)(batch);
  for (const auto& [name, mean] : of_batch.entries()) {
    logged_.log(name, at::scalar_tensor(mean, at::kDouble));
  }
}

}  // namespace pharos::ml
