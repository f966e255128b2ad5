#pragma once

#include <sys/types.h>

#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/result.hpp>

namespace pharos::process {

/// From now on, what is orphaned below this process becomes its child, even across setsid() and double forks.
void become_subreaper();

/// Every process below this one, children and their children, in no order.
std::vector<pid_t> descendants();

/// Kills every process below this one, and what they start meanwhile, and reaps them. For a subreaper with one thread
/// that waits for no child by other means.
Result<void> kill_descendants(async::Deadline deadline);

}  // namespace pharos::process
