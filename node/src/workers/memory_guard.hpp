#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/base/clock.hpp>

#include "leases/lease_book.hpp"
#include "node/host.hpp"
#include "node/site.hpp"
#include "users/worker_inspection.hpp"
#include "workers/victims.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// When memory is short, kills workers before the kernel kills any process: one at a time, the cheapest first
/// (victims.hpp).
///
/// 1. The next worker is killed only after the process of the last one is gone and memory has been read again.
/// 2. Callers that wait for a killed worker are told why it was killed, with numbers.
///
/// It looks at the memory every 250 ms, and asks workers for up to 100 ms what they run before it chooses one. If there
/// is no worker to kill, only the log says so.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it.
class MemoryGuard {
 public:
  MemoryGuard(Site& site, LeaseBook& book, Workers& workers) : site_{site}, book_{book}, workers_{workers} {}

  /// Watches the memory from here on, as long as there are workers and the memory use is known. Node calls this
  /// whenever a worker is forked.
  void watch();
  /// A worker was killed by SIGKILL, but not by this node. Returns the reason if the kernel has killed it for memory,
  /// faster than the watch; else "".
  std::string why_kernel_killed();

 private:
  async::Async<void> watch_until_idle();
  bool look();
  bool is_short() const;
  async::Async<std::shared_ptr<Worker>> find_victim();
  async::Async<void> ask_what_runs(std::shared_ptr<WorkerInspection> inspection);
  void kill(Worker& worker);
  async::Async<bool> wait_until_gone(std::shared_ptr<Worker> worker);

  Site& site_;
  LeaseBook& book_;
  Workers& workers_;
  bool watches_ = false;
  std::optional<Host::MemoryUse> memory_;   // memory use at the last look
  std::optional<TimePoint> kernel_killed_;  // when the kernel was last seen to have killed a process for memory
};

}  // namespace pharos::node
