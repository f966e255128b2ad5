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
/// options and what it does. Owned by main(); one thread. The CLI::App must outlive this object. The destructor only
/// drops the functions.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_{app} {}

  /// Adds a command. If the user gives it, run() calls `act`, which returns the exit status. What the command's options
  /// refer to must live until run() has returned.
  CLI::App& add(const std::string& name, const std::string& what, std::function<int()> act) {
    return add_below(app_, name, what, std::move(act));
  }
  /// Adds a command that only has commands of its own: `pharos tune show`.
  CLI::App& add_family(const std::string& name, const std::string& what);
  CLI::App& add_below(CLI::App& family, const std::string& name, const std::string& what, std::function<int()> act);
  /// The family's name alone is a command, too. To be called when its other commands have been added.
  void act_alone(CLI::App& family, std::function<int()> act);

  /// All commands and options, as they have been added.
  const CLI::App& app() const { return app_; }

  /// Reads the arguments, does what they say, and returns the exit status. If the arguments make no sense, prints the
  /// reason on standard error and returns 2. Returns 0 for --help and --version. An exception of `act` leaves run(),
  /// and then main().
  int run(int argc, char** argv);

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> acts_;
};

/// Prints the error, if there is one, on standard error. Returns the exit status: 2 for kInvalidArgument and 1 for any
/// other error; without an error 0, or the status in the result.
int status_of(const Result<void>& done);
int status_of(const Result<int>& status);

/// Adds --address and --token-file, by which most commands find the cluster. The parser writes to `place`, which must
/// live until Commands::run() has returned. Without --token-file it writes the value of PHAROS_TOKEN_FILE.
void add_place_options(CLI::App& command, Place& place);
/// Adds --format, which is "json" or the word that `format` holds now. `format` must live as long.
void add_format_option(CLI::App& command, std::string& format);
/// Lets the option be one of these words, which --help lists. Returns the option.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words);
/// Makes a check for an option: it refuses a number that begins with a minus, which CLI11 would take for a large one.
CLI::Validator not_negative();

}  // namespace pharos::console
