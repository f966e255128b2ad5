#pragma once

#include <pharos/base/export.hpp>
#include <pharos/ml/trainer_options.hpp>
#include <pharos/ml/trial.hpp>

/// Trials that are trainings of an ml::Trainer, on ranks of their own:
///
///   double objective(ml::Trial& trial) {
///     pharos::Runtime runtime;
///     ml::Trainer trainer{runtime, ml::as_trial(trial, {.scaling = {.workers = 4}, .folder = "runs/sizes"})};
///     return *ml::fit<Network>(trainer, {.epochs = 10}, trial.params().get<double>("rate")).last("loss");
///   }
///
///   ml::Tuner tuner{runtime, {.space = space, .trials = 20, .at_once = 2, .worker = {.cpus = 0}}};
///
/// The worker of the trial only waits for the ranks, so it needs no CPU; TunerOptions::at_once then says how many
/// trials run at the same time. Ranks that die are the trainer's matter, and cost the trial nothing but their time.
namespace pharos::ml {

/// Returns the options of a training that is this trial. Each report that has the metric TrainerOptions::metric, which
/// must be the metric of the sweep, is a report of the trial, and the training stops when the trial is to stop or to
/// pause. A step that is done again is not reported again.
///
/// The training has the folder "trial-7" in `options.folder`, which lies on a disk that all nodes see. A trial that
/// goes on after a pause, as a copy of another one, or after its worker has died, has the folder "trial-7-again-1" and
/// so on; of the ones before, the last one stays. It begins with the newest checkpoint of its training, or of the other
/// trial's, that is not later than what that trial has noted, and begins anew if there is none.
/// TunerOptions::save_every says at which reports a trial notes its step, and TrainerOptions::save_every at which steps
/// its training saves. Without a folder a trial that is interrupted begins anew.
///
/// The options must not outlive the trial. Throws FailedPrecondition if the folder has checkpoints of another sweep,
/// and the error of the system if it cannot be used.
PHAROS_API TrainerOptions as_trial(Trial& trial, TrainerOptions options);

}  // namespace pharos::ml
