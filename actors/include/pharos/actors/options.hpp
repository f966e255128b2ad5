#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/id.hpp>

namespace pharos {

using async::Deadline;

/// How one task is run: `runtime.submit<&f>({.max_retries = 3}, arguments…)`.
struct TaskOptions {
  /// What it holds while it runs. It waits until a node has that much left; what no node could ever give is refused.
  /// A task that waits for others lends its CPUs to them meanwhile.
  double cpus = 1;
  /// A share of one GPU (0.5), or so many whole ones. It sees those alone, in CUDA_VISIBLE_DEVICES, and none without.
  double gpus = 0;
  /// What else a node has by its PHAROS_RESOURCES: {{"fast_disk", 1}}.
  std::map<std::string, double> resources{};
  /// Nobody wants it after that: its Ref throws DeadlineExceeded, and it does not begin any more. What it calls in turn
  /// has no longer.
  Deadline deadline = Deadline::never();
  /// How often it is run again when the worker that ran it dies. It may then run more than once.
  std::int32_t max_retries = 0;
};

/// How one call of an actor is made: `actor.call<&T::m>({.deadline = …}, arguments…)`.
struct CallOptions {
  /// As for a task.
  Deadline deadline = Deadline::never();
  /// It need not wait for earlier calls whose arguments are not there yet.
  bool unordered = false;
};

/// Where the code that asks for it runs, and for whom.
struct Context {
  JobId job{};
  NodeId node{};
  WorkerId worker{};              ///< none in a program
  ActorId actor{};                ///< none in a program, or in a task
  std::uint32_t incarnation = 0;  ///< of the actor, from 1
  bool restarted = false;         ///< the actor: this is not its first incarnation
  std::string name_space{};       ///< where names count that do not say otherwise; of an actor, where its own does
  TraceId trace{};                ///< of the call tree that this call belongs to; none outside of calls
  Deadline deadline = Deadline::never();      ///< of the running call
  double cpus = 0;                            ///< that the task or actor holds
  std::vector<std::string> gpus{};            ///< that it sees, as CUDA_VISIBLE_DEVICES names them
  std::map<std::string, double> resources{};  ///< what else it holds
};

}  // namespace pharos
