#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace pharos::console {

/// What goes with a program to the nodes that lack it: --with and --with-libtorch. A value.
struct WithOptions {
  std::vector<std::string> paths;
  bool libtorch = false;

  /// The variables by which a program learns of it, each "NAME=value". They go to its workers, too.
  std::vector<std::string> environment() const;
};
/// Adds the options. The parser writes to `with`, which must live until Commands::run() has returned.
void add_with_options(CLI::App& command, WithOptions& with);

/// What goes to the node that runs a job, and how the job's program is called there. A value.
struct JobFiles {
  std::vector<std::string> with;     ///< for RuntimeOptions::with
  std::vector<std::string> command;  ///< names the program by its path in the folder that the job starts in
};
/// Looks at a job's program. If it is a file in this folder, it goes along, with the libraries that it needs. Any other
/// program must be on the node. Prints a warning if the libraries cannot be found out.
JobFiles files_of_job(const std::vector<std::string>& command, const WithOptions& with);

}  // namespace pharos::console
