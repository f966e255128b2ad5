#pragma once

#include <cstddef>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::console {

struct TuneOptions {
  std::string folder{};
  std::size_t rows = 20;          ///< rows of the table
  std::string format = "text";    ///< format of the best trial; or "json"
  std::string export_as = "csv";  ///< or "jsonl", "svg"
  std::string output{};           ///< the file to write; empty: standard output
  std::string from{};             ///< an Optuna study: a SQLite database or a journal file
  std::string study{};            ///< the study's name in `from`; empty if there is only one
};

// The commands of `pharos tune`: they show or export the results of a sweep from the journal in its folder, also while
// the sweep runs.

Result<void> show_sweep(const TuneOptions& options);
Result<void> print_best_trial(const TuneOptions& options);
Result<void> export_sweep(const TuneOptions& options);
/// Resumes the sweep with the command that began it: this process becomes that program. Returns only on failure.
Result<void> resume_sweep(const TuneOptions& options);
/// Makes a sweep's folder of an Optuna study.
Result<void> import_study(const TuneOptions& options);

}  // namespace pharos::console
