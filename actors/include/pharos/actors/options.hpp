#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <pharos/actors/thrown.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/byte_count.hpp>
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
  /// What it is expected to use at most: `.memory = 2_GiB`. So many run beside each other that it is enough; who uses
  /// more is not held back, but ended when the node has too little (Exhausted).
  ByteCount memory{};
  /// What else a node has by its PHAROS_RESOURCES: {{"fast_disk", 1}}.
  std::map<std::string, double> resources{};
  /// What has to be true of its node's labels (PHAROS_LABELS): {{"zone", "in(a, b)"}, {"disk", "!ssd"}}.
  std::map<std::string, std::string> labels{};
  /// On this node and no other. When that is gone it is refused.
  NodeId node{};
  /// On this node, if it has room: what it needs lies there.
  NodeId near{};
  /// On the node of which the least is in use. Else nodes are filled to the half, one after the other, before more goes
  /// to any of them; those with GPUs last, unless they are asked for.
  bool spread = false;
  /// Nobody wants it after that: its Ref throws DeadlineExceeded, and it does not begin any more. What it calls in turn
  /// has no longer.
  Deadline deadline = Deadline::never();
  /// How often it is run again, at most 255 times: when the worker that ran it dies, and for what `retry_on` says. It
  /// may then run more than once. (How often a worker that dies has run it again before is not known, and not counted.)
  std::int32_t max_retries = 0;
  /// Run again, by the same worker, when it throws one of these: `.retry_on = pharos::types<Flaky>`.
  ExceptionTypes retry_on{};
};

/// How one call of an actor is made: `actor.call<&T::m>({.deadline = …}, arguments…)`.
struct CallOptions {
  /// As for a task; also of the time that call() waits for room in a full queue.
  Deadline deadline = Deadline::never();
  /// It need not wait for earlier calls whose arguments are not there yet.
  bool unordered = false;
  /// How often it is run again for what `retry_on` says, at most 255 times. (When its actor's process dies:
  /// ActorOptions::max_task_retries.)
  std::int32_t max_retries = 0;
  /// Run again, in its place, when it throws one of these: later calls of its caller wait for that.
  ExceptionTypes retry_on{};
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
  std::uint32_t attempt = 0;      ///< of the running call: how often it has been run, or sent, before
  TraceId trace{};                ///< of the call tree that this call belongs to; none outside of calls
  Deadline deadline = Deadline::never();      ///< of the running call
  double cpus = 0;                            ///< that the task or actor holds
  std::vector<std::string> gpus{};            ///< that it sees, as CUDA_VISIBLE_DEVICES names them
  ByteCount memory{};                         ///< that it has asked for
  std::map<std::string, double> resources{};  ///< what else it holds
};

}  // namespace pharos
