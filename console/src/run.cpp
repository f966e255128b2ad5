#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/net/address.hpp>

#include "commands.hpp"
#include "with_options.hpp"

namespace pharos::console {
namespace {

namespace fs = std::filesystem;

/// Exit codes of `pharos run` if the program was not started. They are those of env and of shells.
constexpr int kMakesNoSense = 2;
constexpr int kRunFailed = 125;
constexpr int kNotExecutable = 126;
constexpr int kNoSuchProgram = 127;

struct RunOptions {
  Place place;
  std::string folder;                    // where the program starts; empty: the current folder
  std::vector<std::string> environment;  // of the form "NAME=value"
  WithOptions with;
  std::vector<std::string> command;
};

/// Sets the environment variables by which the program finds its cluster. Paths are made absolute, because the program
/// may start in another folder.
Result<void> name_cluster(const Place& place) {
  PHAROS_TRY(const std::string given, address_of(place));
  PHAROS_TRY(const net::Address address, net::parse_address(given));
  if (address.unix_socket) {
    const fs::path socket = fs::absolute(address.place);
    ::setenv("PHAROS_ADDRESS", ("unix:" + socket.string()).c_str(), 1);
    ::setenv("PHAROS_TOKEN_FILE", (socket.parent_path() / "token").c_str(), 1);
    return {};
  }
  PHAROS_TRY_VOID(check_token_is_named(place));
  ::setenv("PHAROS_ADDRESS", given.c_str(), 1);
  ::setenv("PHAROS_TOKEN_FILE", fs::absolute(place.token_file).c_str(), 1);
  return {};
}

Result<void> prepare(const RunOptions& options) {
  PHAROS_TRY_VOID(name_cluster(options.place));
  PHAROS_TRY([[maybe_unused]] const NodeConnection answers, NodeConnection::connect(options.place));
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) {
    return Error::from_errno("entering the folder " + options.folder, errno);
  }
  std::vector<std::string> variables = options.with.environment();
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  for (const std::string& variable : variables) {
    const std::size_t end = variable.find('=');
    if (end == std::string::npos || end == 0) {
      return Error{ErrorCode::kInvalidArgument, "\"" + variable + "\" is not of the form NAME=VALUE",
                   "Write --env NAME=VALUE."};
    }
    ::setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
  }
  return {};
}

/// Replaces this process by the program, connected to that cluster. Returns only on failure, after printing the reason,
/// with the exit code.
int become_program(RunOptions options) {
  if (const auto prepared = prepare(options); !prepared) {
    std::cerr << "pharos: " << prepared.error().to_string() << '\n';
    return prepared.error().code() == ErrorCode::kInvalidArgument ? kMakesNoSense : kRunFailed;
  }
  std::vector<char*> arguments;
  for (std::string& argument : options.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  const int why = errno;
  std::cerr << "pharos: " << options.command.front() << ": "
            << (why == ENOENT ? "there is no such program, or the interpreter that it names is missing"
                              : std::string{"it cannot be run: "} + ::strerror(why))
            << '\n';
  return why == ENOENT ? kNoSuchProgram : kNotExecutable;
}

}  // namespace

void add_run(Commands& commands) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = commands.add("run", "Runs a program on a cluster: pharos run -- ./app ARGUMENTS",
                                   [options] { return become_program(std::move(*options)); });
  add_place_options(command, options->place);
  command
      .add_option("--folder", options->folder,
                  "The folder in which the program starts; its workers start there, too, on nodes that have the folder")
      ->type_name("FOLDER");
  command
      .add_option("--env", options->environment,
                  "A variable for the program and its workers; may be given several times")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  add_with_options(command, options->with);
  command.add_option("program", options->command, "The program and its arguments, behind --")
      ->type_name("-- PROGRAM ARGUMENTS")
      ->required();
  command.footer(
      "The program runs here, and its tasks and actors on all nodes. Nodes that lack its executable, its\n"
      "libraries, or what --with names get copies of them, once. Libraries of the system (/lib, /usr) are not sent.\n"
      "Signals, terminal and exit code are the program's own. Exit codes otherwise: 125 the program could not be\n"
      "prepared, 126 it cannot be run, 127 there is no such program, 2 the arguments make no sense.\n"
      "Examples:\n"
      "  pharos run -- ./train --epochs 3\n"
      "  pharos run --address 10.0.0.1:7400 --token-file ~/cluster.token -- ./app\n"
      "  pharos run --with config --with vocabulary.txt -- ./train\n"
      "  pharos run --folder /data --env OMP_NUM_THREADS=4 -- /opt/app/bin/app");
}

}  // namespace pharos::console
