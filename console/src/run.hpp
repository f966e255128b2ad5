#pragma once

#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// Exit codes of `pharos run` if the program was not started. They are those of env and of shells.
inline constexpr int kMakesNoSense = 2;
inline constexpr int kRunFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNoSuchProgram = 127;

struct RunOptions {
  Place place;
  std::string folder;                    ///< where the program starts; empty: the current folder
  std::vector<std::string> environment;  ///< of the form "NAME=value"
  std::vector<std::string> command;
};

/// Replaces this process by the program, connected to that cluster; signals, terminal and exit code are then the
/// program's. Returns only on failure, after printing the reason, with the exit code.
int run(RunOptions options);

}  // namespace pharos::console
