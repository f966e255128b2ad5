#include "tune.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optuna_study.hpp>
#include <pharos/ml/sweep_results.hpp>

namespace pharos::console {
namespace {

/// Returns the error of an exception that `act` throws.
template <class Do>
Result<void> without_exceptions(const Do& act) {
  try {
    return act();
  } catch (const Exception& why) {
    return why.error();
  }
}

}  // namespace

Result<void> show_sweep(const TuneOptions& options) {
  return without_exceptions([&]() -> Result<void> {
    const auto sweep = ml::SweepResults::load(options.folder);
    std::cout << sweep.summary() << "\n\n" << sweep.table(options.rows) << '\n' << sweep.to_text_picture();
    return {};
  });
}

Result<void> print_best_trial(const TuneOptions& options) {
  return without_exceptions([&]() -> Result<void> {
    const auto sweep = ml::SweepResults::load(options.folder);
    const ml::TrialResult& best = sweep.best();
    if (options.format == "json") {
      std::cout << best.params.to_json() << '\n';
      return {};
    }
    std::cout << "trial " << best.number << ", " << to_string(best.state) << '\n'
              << sweep.metric() << ' ' << ml::to_string(ml::Value{*best.value}) << '\n';
    if (best.step != 0) std::cout << "step " << best.step << '\n';
    for (const auto& [name, value] : best.params.entries()) std::cout << name << '=' << ml::to_string(value) << '\n';
    return {};
  });
}

Result<void> export_sweep(const TuneOptions& options) {
  return without_exceptions([&]() -> Result<void> {
    const auto sweep = ml::SweepResults::load(options.folder);
    const std::string text = options.export_as == "csv"     ? sweep.to_csv()
                             : options.export_as == "jsonl" ? sweep.to_json_lines()
                                                            : sweep.to_svg();
    if (options.output.empty()) {
      std::cout << text;
      return {};
    }
    std::ofstream file{options.output, std::ios::binary | std::ios::trunc};
    file << text << std::flush;
    if (!file) return Error::from_errno("writing " + options.output, errno);
    return {};
  });
}

Result<void> resume_sweep(const TuneOptions& options) {
  return without_exceptions([&]() -> Result<void> {
    const auto sweep = ml::SweepResults::load(options.folder);
    if (sweep.command().empty()) {
      return Error{ErrorCode::kNotFound, "the journal does not say which command began the sweep",
                   "Start its program again, with restore()."};
    }
    std::error_code error;
    std::filesystem::current_path(sweep.working_folder(), error);
    if (error) {
      return Error::from_errno("going to " + sweep.working_folder().string() + ", where the sweep was begun",
                               error.value());
    }
    ::setenv("PHAROS_TUNE_RESUME", "1", 1);
    std::vector<std::string> words = sweep.command();
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments.front(), arguments.data());
    return Error::from_errno("starting " + words.front() + ", which began the sweep", errno,
                             "Build it again where it was.");
  });
}

Result<void> import_study(const TuneOptions& options) {
  return without_exceptions([&]() -> Result<void> {
    const std::size_t trials = ml::import_optuna_study(options.from, options.folder, options.study);
    std::cout << trials << " trials are in " << options.folder << " now. To look at them:\n  pharos tune show "
              << options.folder << '\n';
    return {};
  });
}

}  // namespace pharos::console
