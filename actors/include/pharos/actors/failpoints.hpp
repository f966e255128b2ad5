#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it.
namespace pharos::actors::failpoints {

inline constexpr Failpoint kResultSent{
    "result_sent"};  ///< the caller is told of a result in the store, but the worker has not noted the hand-over

}  // namespace pharos::actors::failpoints
