#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/placement_group.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/ml/searcher.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/trial_result.hpp>
#include <pharos/ml/trial_scheduler.hpp>

namespace pharos::ml {

struct TunerOptions {
  /// The parameters to try. If it is empty, the parameters are those that the objective asks for as it runs.
  Space space{};
  std::string metric = "value";
  Goal goal = Goal::kMinimise;
  /// Names of metrics that must be at most zero.
  std::vector<std::string> constraints{};
  /// Number of trials. 0: the number of combinations if the space has grids, and otherwise as many trials as `time`
  /// allows.
  std::uint64_t trials = 0;
  /// Number of steps after which a trial is complete. 0: a trial runs until it returns or is stopped.
  std::uint64_t steps = 0;
  /// Proposes the parameters of trials. Null: grid_search(space) if the space has grids, and otherwise tpe(space).
  std::unique_ptr<Searcher> searcher{};
  /// Decides which trials go on; null: all do.
  std::unique_ptr<TrialScheduler> scheduler{};
  /// Parameters of the first trials. The searcher adds the parameters that are missing.
  std::vector<Params> first{};

  /// Number of trials that run at the same time. 0: as many as the cluster has room for.
  std::size_t at_once = 0;
  /// Each trial runs on a group of `workers` actors, each of which has the resources `worker`.
  std::size_t workers = 1;
  Bundle worker{.cpus = 1};
  Strategy strategy = Strategy::kPack;

  /// Number of times that a trial is started again, from its last checkpoint, after its worker has died.
  std::uint32_t retries = 3;
  /// A trial that sends nothing for this long is ended as if its worker had died: its worker is killed. 0: never.
  Duration silence{};
  /// After this time no trial begins. Running trials are stopped at their next report, or killed when `grace` is over
  /// too. 0: no limit.
  Duration time{};
  Duration grace = std::chrono::seconds{10};
  /// Trials save a checkpoint every so many steps. 0: only when they pause.
  std::uint64_t save_every = 0;
  /// Number of the best trials whose last checkpoint is kept after they have ended.
  std::size_t checkpoints = 1;
  /// Trial n is proposed from exactly the results of trials 0 to n - at_once, in their order. Thus the same seed gives
  /// the same sweep, however long trials take. Parameters that trials ask for as they run are then sampled at random.
  /// `at_once` must be set, too.
  bool deterministic = false;

  /// The folder of the sweep's journal and of its checkpoints; each sweep has its own. Empty: nothing is kept, and the
  /// sweep cannot be continued.
  std::filesystem::path folder{};
  /// True: the journal is synced to disk ten times a second, and when the sweep ends. False: it is written to the
  /// kernel but never synced.
  bool durable = true;
  /// Writes each report as a line to reports.csv and reports.jsonl in the folder.
  bool log_reports = true;
  /// Writes files for TensorBoard and its HParams page in the folder.
  bool tensorboard = false;
  /// Shows progress on the standard error: on a terminal as a table that is redrawn, elsewhere as a line now and then.
  bool progress = true;
};

}  // namespace pharos::ml
