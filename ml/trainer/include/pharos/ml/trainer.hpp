#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/train_context.hpp>
#include <pharos/ml/train_result.hpp>
#include <pharos/ml/train_worker.hpp>
#include <pharos/ml/trainer/train_workers.hpp>
#include <pharos/ml/trainer_options.hpp>

/// Runs a training function on a group of actors, the ranks:
///
///   ml::Trainer trainer{runtime, {.scaling = {.workers = 4}, .folder = "runs/first", .save_every = 100}};
///   const ml::TrainResult result = trainer.run<&train>(1e-3);
///   std::cout << result.to_text_picture();
///
/// `train` is a function of a TrainContext (see train_context.hpp) and of the arguments that run() is given. If an
/// argument is a Ref, each rank gets its result, which is mapped from the object store and not copied.
///
/// When a rank dies or does not come in time, all ranks begin again, in new processes and from the newest checkpoint.
/// If all ranks have the same state (OnRankDeath::kReplace), only the dead rank is replaced by another process, and the
/// other ranks go on with the interrupted step. An exception of `train` itself ends the training.
namespace pharos::ml {

/// Runs trainings, one at a time, and owns their actors. The program owns it. One thread at a time; the Runtime must
/// outlive it. run() waits until the training is over, and ends its actors, also when it throws. While the cluster has
/// no room for the ranks, run() waits for room, until Ctrl-C or TrainerOptions::time.
///
/// The constructor throws InvalidArgument for options that make no sense. run() throws what the training function has
/// thrown (UserError, or another code), with the number of the rank; the error of the last death (ActorDied, for
/// instance) if ranks have died more often than `restarts`; FailedPrecondition if the function of one rank has returned
/// and others wait for it in vain (OnRankDeath::kReplace); the error if the actors can never be placed; and the error
/// if the folder cannot be used at the beginning. Ctrl-C stops the training in order: it saves a checkpoint, and run()
/// returns the result so far. TrainResult::why_unsaved says if that went wrong. A second Ctrl-C ends the program.
class PHAROS_API Trainer {
 public:
  Trainer(Runtime& runtime, TrainerOptions options);
  Trainer(Trainer&&) = delete;
  ~Trainer();

  Runtime& runtime() const { return runtime_; }
  const TrainerOptions& options() const { return options_; }

  template <auto Train, class... Args>
  TrainResult run(Args&&... args) {
    return run(make<detail::TrainWorker<Train, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...));
  }

 private:
  template <class Worker, class... Args>
  detail::MakeTrainWorkers make(Args&&... args) {
    using Kept = std::tuple<pharos::detail::KeptArgument<Args>...>;
    return [this, kept = std::make_shared<const Kept>(std::forward<Args>(args)...)](const ActorGroupOptions& options) {
      return std::apply(
          [&](const auto&... each) -> std::unique_ptr<detail::TrainWorkers> {
            return std::make_unique<detail::GroupOfTrainWorkers<Worker>>(
                runtime_.spawn_group<Worker>(options, each...));
          },
          *kept);
    };
  }
  TrainResult run(const detail::MakeTrainWorkers& make);

  Runtime& runtime_;
  TrainerOptions options_;
};

}  // namespace pharos::ml
