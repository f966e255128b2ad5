#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// Programs, their callers, and what their workers print. See pharos/wire/message.hpp.

namespace pharos::wire {

/// A file that a program needs besides its executable. A node that lacks it is sent a copy. A value.
struct ProgramFile {
  /// A shared library: its absolute path on the driver's machine. Any other file: its path in the program's folder.
  std::string path;
  BuildId content{};  ///< the linker's build id, or a hash of all bytes of a file without one
  std::uint64_t size = 0;

  bool is_library() const { return path.starts_with('/'); }
};
/// Driver to node, with the driver's executable. Answered by JobRegistered.
struct RegisterJob {
  static constexpr std::size_t kDescriptors = 1;
  std::string executable;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string folder;
  BuildId build_id{};
  std::vector<ProgramFile> files{};
};
/// Node to driver. Also node to worker, as the first message: a caller is a driver or a worker.
struct JobRegistered {
  JobId job;
  CallerId caller;
  NodeId node;
  std::uint32_t cpus = 0;
  std::string warning;  ///< the reason if workers of this program start slowly, else empty
  std::string address;  ///< address of the node's Unix socket
};
/// A job's node to the head, which tells those that are to run it.
struct AddJob {
  JobId job;
  RegisterJob program;
  NodeId node{};                 ///< node of the job's driver
  std::vector<NodeId> others{};  ///< other nodes that can send the executable
};
/// The job's node to the head, which tells the nodes that run it.
struct EndJob {
  JobId job;
};
/// The job's node to the head, which tells the nodes that run it. Answered by JobStopped.
/// The job's driver is about to end. The job's workers must end, after the destructors of their actors have run. If the
/// job has detached actors, the head answers at once, and the workers go on.
struct StopJob {
  JobId job;
};
/// The same way back, when all workers of the job are gone, or at once if the job has detached actors.
struct JobStopped {
  JobId job;
};
/// The caller's node to the head, which tells the nodes whose workers the caller has leased.
struct EndCaller {
  CallerId caller;
};
/// Node to driver, which says Done when it is shown. By way of the head if the driver is at another node.
struct Output {
  std::string label;
  std::int32_t pid = 0;
  bool error = false;
  std::string lines;
  bool report = false;  ///< the lines are a report about the worker, not its own output
  JobId job{};
  bool last = false;  ///< the process has ended: neither of its streams has more output
};
/// Driver to node. Answered by Done when every worker of the job is gone, after a time limit, or at once if the job has
/// detached actors.
struct Stop {};

}  // namespace pharos::wire
