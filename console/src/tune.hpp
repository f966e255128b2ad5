#pragma once

#include <cstddef>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::console {

struct TuneOptions {
  std::string folder{};
  std::size_t rows = 20;          ///< of the table
  std::string format = "text";    ///< of the best; or "json"
  std::string export_as = "csv";  ///< or "jsonl", "svg"
  std::string output{};           ///< a file. Empty: the standard output
  std::string from{};             ///< a file of Optuna's
  std::string study{};            ///< in that. Empty: the only one
};

// `pharos tune`: what has come of a sweep, by the journal in its folder; also while it runs.

Result<void> show_sweep(const TuneOptions& options);
Result<void> print_best_trial(const TuneOptions& options);
Result<void> export_sweep(const TuneOptions& options);
/// Goes on with it by the command that began it: becomes that program.
Result<void> resume_sweep(const TuneOptions& options);
/// Makes a study of Optuna's a sweep's folder.
Result<void> import_study(const TuneOptions& options);

}  // namespace pharos::console
