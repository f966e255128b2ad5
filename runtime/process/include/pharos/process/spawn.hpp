#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos::process {

/// A program to start. Descriptors other than those named are closed in it.
struct Program {
  std::string path;                        ///< what is executed, unless `executable` is open; and what is shown
  Fd executable;                           ///< executed by descriptor: the file may have been replaced meanwhile
  std::vector<std::string> arguments;      ///< with argv[0]
  std::vector<std::string> environment;    ///< "NAME=value"
  std::vector<std::pair<int, int>> moved;  ///< (descriptor here, descriptor there)
  std::string folder;                      ///< empty: this process's
  bool new_session = false;                ///< no terminal, so no Ctrl-C
};

/// Starts it; safe in a process with threads. The caller reaps it.
Result<pid_t> spawn(const Program& program);

/// This process's environment, as spawn() takes it.
std::vector<std::string> own_environment();

}  // namespace pharos::process
