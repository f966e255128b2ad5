#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// Processes of workers: a node, its zygotes, and its workers. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Node to caller, with the socket for calls.
struct WorkerReady {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  ActorId actor;  ///< the worker's actor; none if the worker runs tasks
  std::uint32_t incarnation = 0;
  std::int32_t pid = 0;
  std::int32_t max_task_retries = 0;  ///< how often a call may be sent to a new incarnation
  bool remote = false;         ///< on another machine: an actor's connection may end although both processes live
  std::string ended{};         ///< how the previous incarnation ended; empty for the first
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};
/// Zygote to node.
struct ZygoteReady {
  BuildId build_id{};
  std::uint32_t functions = 0;
  std::string cannot_fork;  ///< the reason if this program cannot be forked safely, else empty
};
/// Node to zygote, with control socket, standard output, standard error. WorkerForked follows, or WorkerReaped if the
/// worker could not be started.
struct ForkWorker {
  static constexpr std::size_t kDescriptors = 3;
  WorkerId worker;
  std::vector<std::string> variables{};  ///< "NAME=value", set before user code runs
};
/// Zygote to node, and worker to node, with the worker's pidfd.
struct WorkerForked {
  static constexpr std::size_t kDescriptors = 1;
  WorkerId worker;
  std::int32_t pid = 0;
};
/// Zygote to node.
struct WorkerReaped {
  WorkerId worker;
  std::int32_t status = 0;  ///< the status from waitpid(); minus errno if the worker could not be started
  bool crashed = false;     ///< a WorkerCrashed message follows
};
/// Zygote to node, after a WorkerReaped that announced it.
struct WorkerCrashed {
  WorkerId worker;
  std::string headline;  ///< text to append to "killed by SIGSEGV"
  std::string report;    ///< the report, several lines
};
/// Node to worker, with the socket for calls. Answered by Done: the worker has the socket.
struct ServeCaller {
  static constexpr std::size_t kDescriptors = 1;
  CallerId caller;
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool remote = false;        ///< like WorkerReady::remote
  WorkerResources holding{};  ///< resources of the caller's tasks; empty for an actor, which has its own
};
/// Node to worker: destroy the actor, flush, exit. A worker that runs tasks and gets time instead gives back the tasks
/// that it has not begun, and lives on until a second EndWorker without time.
struct EndWorker {
  std::uint32_t grace_ms = 0;  ///< time for the call that runs
  bool moves = false;          ///< the worker's actor continues on another node
};
/// Worker to node: its task waits for something, or goes on.
struct WorkerBlocked {
  bool blocked = false;  ///< the worker's task waits for something; false: it continues
};

}  // namespace pharos::wire
