#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optuna_study.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "commands.hpp"

namespace pharos::console {
namespace {

struct TuneOptions {
  std::string folder{};
  std::size_t rows = 20;          // rows of the table
  std::string format = "text";    // format of the best trial; or "json"
  std::string export_as = "csv";  // or "jsonl", "svg", "html"
  std::string output{};           // the file to write; empty: standard output
  std::string from{};             // an Optuna study: a SQLite database or a journal file
  std::string study{};            // the study's name in `from`; empty if there is only one
};

/// Returns the error of an exception that `act` throws.
template <class Do>
Result<void> without_exceptions(const Do& act) {
  try {
    return act();
  } catch (const Exception& why) {
    return why.error();
  }
}

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
                             : options.export_as == "html"  ? sweep.to_html()
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

/// Resumes the sweep with the command that began it: this process becomes that program. Returns only on failure.
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

}  // namespace

void add_tune(Commands& commands) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::App& family = commands.add_family("tune", "Shows the results of a sweep over parameters, or goes on with it");
  const auto add = [&](const char* name, const char* what, Result<void> (*act)(const TuneOptions&)) -> CLI::App& {
    return commands.add_below(family, name, what, [options, act] { return status_of(act(*options)); });
  };
  const auto add_folder = [&](CLI::App& command) -> CLI::App& {
    command.add_option("DIR", options->folder, "The sweep's folder (TunerOptions::folder)")->required();
    return command;
  };
  add_folder(add("show", "How far the sweep is, its best trials, and a picture of all", &show_sweep))
      .add_option("--rows", options->rows, "Trials in the table")
      ->type_name("NUMBER")
      ->capture_default_str();
  CLI::App& best = add_folder(add("best", "The best trial and its parameters", &print_best_trial));
  one_of(best.add_option("--format", options->format, "How to print it; json: only the parameters"), {"text", "json"})
      ->capture_default_str();
  CLI::App& exports =
      add_folder(add("export", "All trials: as CSV, as lines of JSON, as a picture, or as a page", &export_sweep));
  one_of(exports.add_option("--format", options->export_as, "The format of the file"), {"csv", "jsonl", "svg", "html"})
      ->capture_default_str();
  exports.add_option("--output,-o", options->output, "The file (default: the standard output)")->type_name("FILE");
  add_folder(add("resume", "Goes on with the sweep, by the command that began it", &resume_sweep));
  CLI::App& imports = add("import", "Makes the folder of a sweep from a study of Optuna's", &import_study);
  imports.add_option("FILE", options->from, "Its database (SQLite) or its journal (JournalFileBackend)")->required();
  imports.add_option("DIR", options->folder, "The sweep's folder, which is made")->required();
  imports.add_option("--study", options->study, "The name of the study, if there are several")->type_name("NAME");
  family.footer(
      "A sweep can be looked at while it runs.\n"
      "Examples:\n"
      "  pharos tune show sweeps/first --rows 5\n"
      "  pharos tune best sweeps/first --format json\n"
      "  pharos tune export sweeps/first --format html --output first.html\n"
      "  pharos tune resume sweeps/first\n"
      "  pharos tune import optuna.db sweeps/mlp --study mlp\n"
      "Exit codes: 0 done, 1 there is no sweep or its journal cannot be read, 2 the arguments make no sense; resume: "
      "the\n"
      "program's own.");
}

}  // namespace pharos::console
