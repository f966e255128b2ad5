#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::process {

/// A program to start. The new process has the descriptors in `moved` and this process's standard input, output and
/// error; all other descriptors are closed. SIGCHLD, SIGPIPE, SIGINT, SIGTERM, SIGHUP and SIGQUIT have their default
/// action there, and no signal is blocked. The Program owns `executable` only; the descriptors in `moved` must be open
/// during spawn(), which closes none of them here.
struct Program {
  std::string path;                        ///< file to execute if `executable` is empty; also named in errors
  Fd executable;                           ///< if open, executed instead, because the file at `path` may be replaced
  std::vector<std::string> arguments;      ///< the arguments, beginning with argv[0]
  std::vector<std::string> environment;    ///< entries "NAME=value"
  std::vector<std::pair<int, int>> moved;  ///< pairs (descriptor here, descriptor in the new process), at most 16
  std::string folder;                      ///< working folder; empty for this process's folder
  bool new_session = false;                ///< start a session without a terminal, and so without Ctrl-C
};

/// Starts a program and returns its process id. Blocks until the new process executes the program. Safe in a process
/// with threads. Returns the error of errno, and sets errno, if the process cannot be made, its working folder cannot
/// be entered, or the program cannot be executed. More than 16 entries in `moved` abort the process. The caller must
/// reap the process.
Result<pid_t> spawn(const Program& program);

/// Returns a copy of this process's environment for Program::environment.
std::vector<std::string> own_environment();

}  // namespace pharos::process
