#pragma once

#include <string>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/fd.hpp>

namespace pharos::process {

/// The data that a daemon gets from its keeper.
struct Kept {
  std::string run_folder;  ///< path of the run folder, which the daemon makes
  Fd keeper_alive;         ///< end of a pipe, which reads end-of-file once the keeper is gone
};

/// Makes this process a keeper, the process that cleans up after a daemon. The keeper forks the daemon, waits until the
/// daemon has ended in any way, kills the descendants that are left (for 8 s at most; the log says if some do not end),
/// and removes the run folder. It passes SIGTERM, SIGINT and SIGHUP on to the daemon as SIGTERM; under nohup it ignores
/// SIGHUP. Returns the exit status for the keeper: that of the daemon, or 128 plus the number of the signal that killed
/// the daemon. In the daemon, `daemon` runs and its result is the exit status; the daemon ends by _exit(), and `daemon`
/// must not throw.
///
/// The keeper closes all descriptors of this process above 2, except its own pipe, and keeps its handlers of the
/// signals after the call. Aborts the process if the system gives no pipe or process.
///
/// Keeper and daemon are both subreapers, one inside the other. If the keeper is killed, the daemon still has all
/// processes of the run below it, cleans up in the same way, and ends. If the daemon is killed, the keeper has them.
/// Must be called while the process has one thread. `base_folder` must exist. May be called again after the daemon has
/// ended; returns 0 at once if a signal to end came during an earlier call.
int run_keeper(const std::string& base_folder, async::UniqueFunction<int(Kept)> daemon);

}  // namespace pharos::process
