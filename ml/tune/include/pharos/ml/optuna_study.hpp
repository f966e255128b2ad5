#pragma once

#include <filesystem>
#include <string>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/sweep_results.hpp>

/// Studies of Optuna, read from where it keeps them, to look at, or to go on with:
///
///   ml::import_optuna_study("optuna.db", "sweeps/mlp");
///   ml::Tuner tuner{runtime, {.space = space, .trials = 500, .folder = "sweeps/mlp"}};
///   tuner.restore<&objective>();  // the searcher has learned from the study's trials
namespace pharos::ml {

struct OptunaStudy {
  std::string name{};
  /// What its trials have drawn from; where that has changed from one to the next, all of it.
  Space space{};
  /// Trials that have a result, if only a report before they were pruned, in their order and numbered anew; the metric
  /// is "value". Steps count from 1.
  SweepResults results{{}};
};

/// `file` is Optuna's database (SQLite) or its journal (JournalFileBackend), also while Optuna writes to it. Without a
/// name: the only study there is. Throws NotFound, with the names there are; Unsupported for a study of several
/// objectives, or where SQLite cannot be loaded; Corrupt.
PHAROS_API OptunaStudy load_optuna_study(const std::filesystem::path& file, const std::string& name = {});

/// Makes it a sweep's folder. Returns how many trials that are. Throws AlreadyExists where there is one.
PHAROS_API std::size_t import_optuna_study(const std::filesystem::path& file, const std::filesystem::path& folder,
                                           const std::string& name = {});

}  // namespace pharos::ml
