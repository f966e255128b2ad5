#pragma once

#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// Exit codes of `pharos run` when there is no program to give one, as env and shells have them.
inline constexpr int kMakesNoSense = 2;
inline constexpr int kRunFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNoSuchProgram = 127;

struct RunOptions {
  Place place;
  std::string folder;                    ///< where it starts; empty: here
  std::vector<std::string> environment;  ///< "NAME=value"
  std::vector<std::string> command;
};

/// Becomes the program, as a part of that cluster: signals, terminal and exit code are its own. Returns when that
/// cannot be, having said why, with the exit code.
int run(RunOptions options);

}  // namespace pharos::console
