#include "run.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <pharos/net/address.hpp>

namespace pharos::console {
namespace {

namespace fs = std::filesystem;

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
  PHAROS_TRY([[maybe_unused]] const Asked answers, Asked::connect(options.place));
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) {
    return Error::from_errno("entering the folder " + options.folder, errno);
  }
  for (const std::string& variable : options.environment) {
    const std::size_t end = variable.find('=');
    if (end == std::string::npos || end == 0) {
      return Error{ErrorCode::kInvalidArgument, "\"" + variable + "\" is not of the form NAME=VALUE",
                   "Write --env NAME=VALUE."};
    }
    ::setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
  }
  return {};
}

}  // namespace

int run(RunOptions options) {
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

}  // namespace pharos::console
