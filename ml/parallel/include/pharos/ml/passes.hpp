#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/trainer.hpp>

/// Passes over data with a trained module:
///
///   const ml::TrainResult result = ml::fit<Digits>(trainer, options);
///   const ml::Metrics tested = ml::test<Digits>(trainer, result.model, options);           // {"test_loss": 0.03}
///   const ml::Array classes = ml::predict<Digits>(trainer, result.model, options);
///
/// `model` are parameters and buffers: TrainResult::model, those of a checkpoint (ml::tensors_of_checkpoint()), or of a
/// file. The ranks are made as those of the trainer, and end with the pass. Nothing is read from the trainer's folder
/// or written to it, and its callbacks are not called. When a rank dies, the pass begins again. Of the options, those
/// about steps and epochs do not matter.
namespace pharos::ml {

namespace detail {

/// The trainer's options for ranks that only make a pass.
PHAROS_API TrainerOptions options_of_pass(TrainerOptions options, const std::string& what);
/// Loads the model into the learner's module, and makes one pass as one rank. The result of a test is reported; that of
/// a prediction becomes TrainContext::model() at rank 0. Resets `disk` once the module is divided.
PHAROS_API void test(TrainContext& context, Learner& learner, const FitOptions& options,
                     const std::vector<NamedArray>& model, std::optional<DiskBacked>& disk);
PHAROS_API void predict(TrainContext& context, Learner& learner, const FitOptions& options,
                        const std::vector<NamedArray>& model, std::optional<DiskBacked>& disk);
/// What test() and predict() return of the result of their ranks. Throw Cancelled if the pass was interrupted.
PHAROS_API Metrics tested_of(const TrainResult& result);
PHAROS_API Array predicted_of(const TrainResult& result);

template <class T, class... Args>
void test_as_rank(TrainContext& context, const FitOptions& options, const std::vector<NamedArray>& model,
                  const Args&... args) {
  with_learner<T>(
      context, options,
      [&](Learner& learner, std::optional<DiskBacked>& disk) { test(context, learner, options, model, disk); },
      args...);
}
template <class T, class... Args>
void predict_as_rank(TrainContext& context, const FitOptions& options, const std::vector<NamedArray>& model,
                     const Args&... args) {
  with_learner<T>(
      context, options,
      [&](Learner& learner, std::optional<DiskBacked>& disk) { predict(context, learner, options, model, disk); },
      args...);
}

}  // namespace detail

/// Makes a T from `args` at each rank, and runs Learner::test_step() once for each batch of Learner::test_data(), in
/// which each sample counts once. Returns the means and measures, with "test_" before their names; with dry_run, of one
/// batch of each rank. Blocks until that is done. Throws InvalidArgument if the learner has no test data or the model
/// does not fit its module, Cancelled after Ctrl-C, and what Trainer::run() and the learner throw.
template <class T, class... Args>
Metrics test(const Trainer& trainer, const std::vector<NamedArray>& model, const FitOptions& options, Args&&... args) {
  Trainer passing{trainer.runtime(), detail::options_of_pass(trainer.options(), "test")};
  return detail::tested_of(passing.run<&detail::test_as_rank<T, pharos::detail::SentArgument<Args>...>>(
      options, trainer.runtime().put(model), std::forward<Args>(args)...));
}

/// Makes a T from `args` at each rank, and returns what Learner::predict_step() says of Learner::prediction_data(): one
/// row for each sample, in the order of the data. Rank 0 and the caller have all rows in memory. Blocks until that is
/// done. Throws InvalidArgument if the learner has no such data, if the rows of two batches differ in type or shape, or
/// if the model does not fit its module, Cancelled after Ctrl-C, and what Trainer::run() and the learner throw.
template <class T, class... Args>
Array predict(const Trainer& trainer, const std::vector<NamedArray>& model, const FitOptions& options, Args&&... args) {
  Trainer passing{trainer.runtime(), detail::options_of_pass(trainer.options(), "prediction")};
  return detail::predicted_of(passing.run<&detail::predict_as_rank<T, pharos::detail::SentArgument<Args>...>>(
      options, trainer.runtime().put(model), std::forward<Args>(args)...));
}

}  // namespace pharos::ml
