#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/wire/message.hpp>

#include "caller/known_actors.hpp"
#include "caller/node_line.hpp"
#include "caller/pending_calls.hpp"
#include "caller/task_pools.hpp"
#include "results/waiting_threads.hpp"

namespace pharos::actors {

/// Reports which results the threads and coroutines of a process wait for, and why. Some of that the caller knows; for
/// the rest it asks its node. Owned by the Caller. Any thread. No function fails: if the node does not answer, the text
/// says so. `then` must not throw, because an exception aborts the process. A report has at most 1000 results. The
/// coroutines use this object until NodeLine::end(), and the references are to parts of the same Caller.
class PendingResults {
 public:
  PendingResults(NodeLine& line, WaitingThreads& threads, PendingCalls& calls, TaskPools& tasks, KnownActors& actors)
      : line_{line}, threads_{threads}, calls_{calls}, tasks_{tasks}, actors_{actors} {}

  /// Returns the results that threads and coroutines wait for, each followed by the arguments that its call waits for.
  std::vector<wire::PendingResult> all();
  /// Explains these waits in lines for people. Asks the node, for at most a second. `then` runs on the strand.
  void explain(async::UniqueFunction<void(std::string)> then);
  /// The same, together with the call that this process runs. If nothing waits, `then` runs at once, on this thread.
  void explain(const wire::InspectedWorker& running, async::UniqueFunction<void(wire::Explained)> then);

 private:
  void add(const detail::CellHandle& cell, std::int32_t argument_of, std::vector<wire::PendingResult>& to);
  async::Async<void> ask_why(async::UniqueFunction<void(std::string)> then);

  NodeLine& line_;
  WaitingThreads& threads_;
  PendingCalls& calls_;
  TaskPools& tasks_;
  KnownActors& actors_;
};

}  // namespace pharos::actors
