#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pharos {

/// Whole lines that a worker has printed, or the notice that its process has ended. A value.
struct WorkerOutput {
  std::string worker;        ///< the worker's name, as it is shown before its lines: the name of its actor
  std::int32_t process = 0;  ///< the number of the worker's process
  bool is_error = false;     ///< true if the lines were printed to standard error
  std::string lines{};
  bool is_last = false;  ///< true if the process has ended; there are no lines then
};
/// A function that gets the output of workers before it is shown, whether or not equal lines are folded. It runs on the
/// thread that reads from the node: one of the Runtime's, or one of the program's that waits in get(). So it must
/// return soon, must not wait for results, and must not throw: an exception ends the program. Calls never overlap. The
/// program owns the function (see Runtime::listen_to_output()). One call may still run when the program gives up its
/// shared_ptr, so the function must own what it uses.
using OutputListener = std::function<void(const WorkerOutput& output)>;

}  // namespace pharos
