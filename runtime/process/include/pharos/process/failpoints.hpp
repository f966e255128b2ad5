#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it.
namespace pharos::process::failpoints {

inline constexpr Failpoint kDaemonForked{
    "daemon_forked"};  ///< the daemon runs, but the keeper has not noted its process id

}  // namespace pharos::process::failpoints
