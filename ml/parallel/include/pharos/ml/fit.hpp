#pragma once

#include <optional>
#include <utility>

#include <pharos/base/export.hpp>
#include <pharos/ml/disk_backed.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/trainer.hpp>

/// Trains a class that says what is learned and from which data. fit() does the rest of the training loop:
///
///   class Digits : public ml::Learner {
///    public:
///     torch::nn::Module& module() override { return *net_; }
///     ml::DatasetPtr training_data() override { return ml::rows_of(…); }
///     at::Tensor training_step(const ml::Batch& batch) override {
///       return torch::cross_entropy_loss(net_(ml::tensor_of(batch["image"])), ml::tensor_of(batch["label"]));
///     }
///    private:
///     Net net_;
///   };
///
///   ml::Trainer trainer{runtime, {.scaling = {.workers = 4}, .folder = "runs/digits", .save_every = 100}};
///   const ml::TrainResult result = ml::fit<Digits>(trainer, {.batch = 64, .epochs = 10});
namespace pharos::ml {

/// Trains the learner as one rank. Call it from a training function of your own, on all ranks and on the rank's thread;
/// it returns when the training has ended or was stopped. The context keeps nothing of the learner afterwards, so the
/// learner may be destroyed. A rank that has reserved a GPU (TrainerOptions::scaling) trains on that GPU. Each step
/// reports "loss", "lr" and "samples_per_second"; with several optimizers "lr" is the rate of the first one, "lr_2"
/// that of the second one, and so on.
///
/// With FitStrategy::kCopies a rank that dies is replaced, and the other ranks go on with the interrupted step. With
/// the strategies that divide, all ranks begin again at the newest checkpoint. So does a module with a SyncBatchNorm,
/// because that keeps the ranks with which it was made: make it in module(), and take a Tail that gives all ranks
/// batches of the same size.
///
/// Throws InvalidArgument for options that make no sense and for validation data of fewer samples than ranks, and what
/// the learner, Ddp, Sharded and TrainContext::resume() throw. Throws a failure between ranks if no process takes the
/// place of a dead rank; the Trainer deals with that. Throws UserError, on all ranks and before any parameter changes,
/// if the loss is not finite, or, with Optimization::clip_norm, if the norm of the gradients is not finite although
/// each of them is. Throws FailedPrecondition, with the name of the parameter, for a gradient that is not finite, with
/// check_numbers, with clip_norm or in a step that is to be saved. Throws Exhausted if a GPU has no memory left.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options);

namespace detail {

/// Resets `disk` once the module is divided, so that all later tensors lie in memory.
PHAROS_API void fit(TrainContext& context, Learner& learner, const FitOptions& options,
                    std::optional<DiskBacked>& disk);

/// Gives libtorch as many threads as the rank has CPUs, at least one, and seeds its random numbers alike on all ranks.
/// Throws what own_device() throws.
PHAROS_API void prepare_rank(const TrainContext& context);

/// Makes the learner of a rank, and calls `work` with it.
template <class T, class Work, class... Args>
void with_learner(const TrainContext& context, const FitOptions& options, const Work& work, const Args&... args) {
  prepare_rank(context);
  std::optional<DiskBacked> disk;
  if (!options.made_in.empty()) disk.emplace(options.made_in);
  T learner(args...);
  work(learner, disk);
}
template <class T, class... Args>
void fit_as_rank(TrainContext& context, const FitOptions& options, const Args&... args) {
  with_learner<T>(
      context, options,
      [&](Learner& learner, std::optional<DiskBacked>& disk) { fit(context, learner, options, disk); }, args...);
}

}  // namespace detail

/// Makes a T from `args` at each rank of the trainer, and trains it. In each rank libtorch has as many threads as the
/// rank has CPUs. If the training has a folder, its last step is saved. Blocks the calling thread until the training is
/// over, and throws what Trainer::run() throws, which includes what fit() throws at the ranks.
template <class T, class... Args>
TrainResult fit(Trainer& trainer, const FitOptions& options, Args&&... args) {
  return trainer.run<&detail::fit_as_rank<T, pharos::detail::SentArgument<Args>...>>(options,
                                                                                     std::forward<Args>(args)...);
}

}  // namespace pharos::ml
