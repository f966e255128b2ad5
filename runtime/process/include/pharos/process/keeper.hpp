#pragma once

#include <string>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/fd.hpp>

namespace pharos::process {

/// What the daemon gets from its keeper.
struct Kept {
  std::string run_folder;  ///< its name; the daemon makes it
  Fd keeper_alive;         ///< reads as ended once the keeper is gone
};

/// The keeper: forks the daemon, waits until it has ended in whatever way, kills every process that is left below,
/// removes the run folder, and returns the exit status to end with. The daemon runs `daemon` and exits with what that
/// returns.
///
/// Both are subreapers, one inside the other. So when the keeper is killed the daemon still has every process of the
/// run below it, does the same and ends; when the daemon is killed the keeper has them.
/// Must be called while the process has one thread. `base_folder` must be there.
int run_keeper(const std::string& base_folder, async::UniqueFunction<int(Kept)> daemon);

}  // namespace pharos::process
