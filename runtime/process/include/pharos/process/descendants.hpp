#pragma once

#include <sys/types.h>

#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>

namespace pharos::process {

/// Makes this process a subreaper: orphaned descendants become its children, even after setsid() and double forks.
/// Aborts the process if the kernel refuses.
void become_subreaper();

/// Returns all descendants of this process (children, their children and so on) in no order, zombies included. Empty if
/// /proc cannot be read. Any thread.
std::vector<pid_t> descendants();

/// Kills and reaps all descendants, including those that they start meanwhile. For a subreaper with one thread, which
/// must not wait for a child in another way. Blocks the thread. Fails with kDeadlineExceeded if processes do not end in
/// time; they may end later. Fails with the error of errno if /proc cannot be read, for example because no descriptor
/// is left.
Result<void> kill_descendants(async::Deadline deadline);

}  // namespace pharos::process
