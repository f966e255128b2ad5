#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pharos {

/// Whole lines that a worker has written; or that there will be no more.
struct WorkerOutput {
  std::string worker;        ///< as it stands before its lines: its actor's name
  std::int32_t process = 0;  ///< its number
  bool is_error = false;     ///< to its standard error
  std::string lines{};
  bool is_last = false;  ///< its process has ended; without lines
};
/// Is given them before they are shown, folded or not. Runs on a thread of Pharos', which it must not hold up.
using OutputListener = std::function<void(const WorkerOutput& output)>;

}  // namespace pharos
