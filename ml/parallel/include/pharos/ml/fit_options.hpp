#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/ml/fit_strategy.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/precision.hpp>

namespace pharos::ml {

/// How fit() trains a Learner. A value; fit() checks it.
struct FitOptions {
  std::size_t batch = 32;  ///< Samples of one rank in one backward.
  /// Backwards in each step of the optimizer. Divided gradients (ZeRO-2, fully sharded) are reduced in each backward.
  std::size_t accumulate = 1;
  std::uint64_t epochs = 1;  ///< 0: as many epochs as `steps` needs.
  /// The training ends after that step, even in the middle of an epoch. 0: it ends with the last epoch.
  std::uint64_t steps = 0;
  /// Validates after each so many epochs, and at the end of the training. 0: not after epochs, nor at the end. With
  /// TrainerOptions::keep_best the validated steps are saved.
  std::uint64_t validate_every = 1;
  /// Validates after each so many steps, too. 0: only after epochs.
  std::uint64_t validate_every_steps = 0;
  FitStrategy strategy = FitStrategy::kByMemory;
  /// Bytes that a rank may use for the model and what belongs to it; kByMemory chooses by this. 0: half of the memory
  /// of its GPU, or, without a GPU, of the node's machine or the limit of its cgroup; divided by the number of ranks
  /// that share it.
  std::uint64_t memory = 0;
  /// A folder on each rank's own disk, in which the module is made before the ranks divide it: see DiskBacked. Empty:
  /// the module is made in memory.
  std::string made_in{};
  /// The module's parameters and buffers become bfloat16, and its inputs must be bfloat16, too. Floats of the
  /// parameters are kept beside them for the optimizer.
  bool bf16 = false;
  /// For modules of floats: what training_step() and validation_step() compute in; see Autocast. With kFp16 a
  /// GradScaler scales each loss, reports have its "loss_scale", and checkpoints keep it. A step whose gradients are
  /// not finite then changes no parameter, and halves the scale.
  Precision precision = Precision::kFloat;
  /// Checks each gradient. If an element is NaN or infinite, fit() throws FailedPrecondition with the name of the
  /// parameter. Costs one reading of all gradients. Gradients of a step that is saved are checked in any case. Not with
  /// Precision::kFp16, with which such gradients are no error.
  bool check_numbers = false;
  /// Tries the training out: one step, and one batch of validation, of each rank. Prints a table of the module. The
  /// report has "peak_memory_mib", the most memory of the host that the process of a rank has had. There is no
  /// TrainResult::model. Throws InvalidArgument for a trainer with a folder, in which a training might go on.
  bool dry_run = false;
  /// A checkpoint of another training with the same state: SavedCheckpoint::path of ml::checkpoints_in(), which all
  /// nodes see. If the training's folder has no checkpoint yet, it goes on from there. Needs a folder.
  std::string begin_from{};
  /// TrainResult::model is the trained model, or, with Optimization::ema_decay, its moving means. The program then has
  /// it in memory, and if the ranks have divided it, rank 0 has, too.
  bool return_model = true;
  std::size_t loader_threads = 1;
  Tail tail = Tail::kUneven;
  /// Each step's report has the seconds of its phases: data, forward, backward, communication, and rank 0's optimizer.
  bool report_phases = false;
  /// Floating point operations for one sample, forward and backward together, and the operations that the machine of
  /// one rank can do in a second. With both, reports have "mfu" (model FLOPs utilisation), which is flops_per_sample *
  /// samples per second / (ranks * peak_flops).
  double flops_per_sample = 0;
  double peak_flops = 0;
};

}  // namespace pharos::ml
