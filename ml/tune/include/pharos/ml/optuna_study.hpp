#pragma once

#include <filesystem>
#include <string>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/sweep_results.hpp>

/// Reads studies of Optuna from Optuna's own files, to look at them, or to continue them as sweeps. Any thread may call
/// these functions.
///
///   ml::import_optuna_study("optuna.db", "sweeps/mlp");
///   ml::Tuner tuner{runtime, {.space = space, .trials = 500, .folder = "sweeps/mlp"}};
///   tuner.restore<&objective>();  // the searcher has learned from the study's trials
namespace pharos::ml {

/// A study as it was when it was read.
struct OptunaStudy {
  std::string name{};
  /// The parameters that the trials have sampled, and their domains. If the range of a number changed from trial to
  /// trial, the domain contains all of these ranges; any other change is ignored, and the first domain counts.
  Space space{};
  /// The trials that have a result: those that are complete, and those that reported at least once before they were
  /// pruned. They keep their order and get new numbers. The metric is "value". All steps are shifted if one is below 1.
  SweepResults results{{}};
};

/// Reads one study. `file` is Optuna's database (SQLite) or its journal (JournalFileBackend); Optuna may write to it
/// meanwhile. If `name` is empty, the file must have exactly one study. Throws NotFound if the file cannot be read or
/// has no such study, with the names that exist; an Exception with kUnsupported if the study has several objectives or
/// SQLite cannot be loaded; Unavailable if SQLite cannot open the file; and an Exception with kCorrupt, or
/// InvalidArgument, if the contents make no sense or the database stays locked for 5 seconds.
PHAROS_API OptunaStudy load_optuna_study(const std::filesystem::path& file, const std::string& name = {});

/// Writes a study as the folder of a sweep, which Tuner::restore() can continue. Returns the number of trials in it.
/// Throws AlreadyExists if the folder already has a sweep, FailedPrecondition if another tuner begins one there, and as
/// load_optuna_study(). If the folder cannot be written to, throws that error, and may leave a sweep with a part of the
/// trials.
PHAROS_API std::size_t import_optuna_study(const std::filesystem::path& file, const std::filesystem::path& folder,
                                           const std::string& name = {});

}  // namespace pharos::ml
