#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// The commands of the console. Each command has a file of its own, whose function (commands.hpp) adds the command, its
/// options and what it does. Owned by main(); one thread.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_{app} {}

  /// Adds a command. If the user gives it, run() calls `act`, which returns the exit status.
  CLI::App& add(const std::string& name, const std::string& what, std::function<int()> act) {
    return add_below(app_, name, what, std::move(act));
  }
  /// Adds a command that only has commands of its own: `pharos tune show`.
  CLI::App& add_family(const std::string& name, const std::string& what);
  CLI::App& add_below(CLI::App& family, const std::string& name, const std::string& what, std::function<int()> act);

  /// Reads the arguments, does what they say, and returns the exit status: 2 if they make no sense.
  int run(int argc, char** argv);

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> acts_;
};

/// Prints the error, if there is one, and returns the exit status.
int status_of(const Result<void>& done);
int status_of(const Result<int>& status);

/// Adds --address and --token-file, by which most commands find the cluster.
void add_place_options(CLI::App& command, Place& place);
/// Refuses a number that begins with a minus, which CLI11 would take for a large one.
CLI::Validator not_negative();

}  // namespace pharos::console
