#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator_options.hpp>
#include <pharos/ml/train_result.hpp>

namespace pharos::ml {

struct Scaling {
  /// Number of ranks, each of which is an actor in a process of its own.
  std::size_t workers = 1;
  double cpus_per_worker = 1;
  double gpus_per_worker = 0;
  ByteCount memory_per_worker{};
  Strategy placement = Strategy::kPack;
};

/// Is called with each report, on the thread of Trainer::run(). A verdict other than kGoOn stops the training. Steps
/// that are done again after a death are reported again. Each run uses new copies of the callbacks, so that state which
/// a callback keeps starts anew. If a callback throws, the training is stopped, and run() throws the same exception, or
/// the error with which the training ends meanwhile.
using TrainCallback = std::function<Verdict(const TrainReport& report)>;
/// Stops the training after `patience` reports in a row that were not better than the best one by more than `least`.
/// Only reports with this metric count, and steps that are done again after a death count once.
PHAROS_API TrainCallback early_stopping(std::string metric, std::uint64_t patience, double least = 0,
                                        bool is_better_lower = true);

struct TrainerOptions {
  /// The name of the training, in messages and as the name of the group of actors.
  std::string name = "training";
  Scaling scaling{};
  /// The type of the ranks' GPUs, as the label "gpu_type" of nodes has it: "A10". Empty: any type.
  std::string gpu_type{};
  /// How the ranks' GPUs reach each other.
  GpuPath gpu_path = GpuPath::kBest;
  std::uint64_t seed = 0;
  /// The folder for logs, and for checkpoints in its subfolder "checkpoints". It lies on a disk that all nodes see, and
  /// only one training may use it. A training resumes from the checkpoints that it finds there. Empty: nothing is
  /// saved. A training whose state is lost then begins anew: when a rank dies whose state no other rank has, or when a
  /// node has to be emptied.
  std::filesystem::path folder{};
  /// Number of steps between two checkpoints. 0: a checkpoint is only saved when the training is stopped, and when
  /// report() asks for one.
  std::uint64_t save_every = 0;
  /// Number of the newest checkpoints, and of the best ones, that are kept.
  std::size_t keep_last = 2;
  std::size_t keep_best = 0;
  /// The name of the metric that matters: by it the best checkpoints and the best report are chosen.
  std::string metric = "loss";
  bool is_better_lower = true;

  /// Number of deaths of ranks that the training survives. With one more, run() throws. Deaths that are noticed
  /// together count as one.
  std::size_t restarts = 3;
  /// How long ranks wait for each other, and how long the trainer waits for a sign of life from a rank. A rank that
  /// does not come in time counts as dead.
  Duration timeout = std::chrono::seconds{30};
  /// The training is stopped after this time, with a checkpoint. 0: never.
  Duration time{};
  /// How long a training that was told to stop may take to return. After that its ranks are killed, and run() returns a
  /// result with TrainResult::why_unsaved.
  Duration grace = std::chrono::seconds{30};

  std::vector<TrainCallback> callbacks{};
  /// Writes each report as a line of reports.csv and reports.jsonl in the folder. If these files, or those below,
  /// cannot be written, their content waits until there is room on the disk, and the training goes on.
  bool log_reports = true;
  /// Writes the output of each rank to logs/rank-0.log and so on in the folder. Only where the Trainer runs in the
  /// program itself, and not in a worker.
  bool log_ranks = true;
  /// Writes a file for TensorBoard in the folder.
  bool tensorboard = true;
  /// Shows the progress on the standard error: as a line that changes, if that is a terminal, or as a line now and
  /// then.
  bool progress = true;
};

}  // namespace pharos::ml
