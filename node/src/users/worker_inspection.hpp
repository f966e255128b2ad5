#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/wire/message.hpp>

#include "workers/worker.hpp"

namespace pharos::node {

/// What workers run, while they are asked, and perhaps the head. Shared by the coroutines that ask: of Inspections or
/// of MemoryGuard, on the node's strand.
struct WorkerInspection {
  wire::Inspected answer{};                     ///< with the workers of this node
  std::vector<wire::InspectedWorker> actors{};  ///< the actors, as the head knows them
  std::size_t missing = 1;                      ///< answers that have not come: the head's, and one of each worker
  async::Completion<void> done{};

  /// An answer has come, or will not come.
  void take_one() {
    if (--missing == 0) done.complete();
  }
};

/// Asks a worker, which must have proved itself, what it runs, and fills its entry in. A worker that does not answer in
/// time, or not as it should, stays without `answered`. Calls take_one() in any case.
async::Async<void> inspect_worker(std::shared_ptr<WorkerInspection> inspection, std::shared_ptr<Worker> worker,
                                  async::Deadline deadline);

}  // namespace pharos::node
