#pragma once

#include <pharos/base/failpoint.hpp>

/// The failpoints of this module. Each comment describes the state at the failpoint. "Can fail" names the failure that
/// FailpointOrder::Action::kFail simulates; kFail has no effect at the failpoints without it. The thread of the
/// training function passes them, on each rank; only the rank that gives its state passes kStateGiven.
namespace pharos::ml::failpoints {

// A rank and its training.
inline constexpr Failpoint kStepCommitted{"step_committed"};  ///< the step is counted, but neither reported nor saved
inline constexpr Failpoint kStepTold{"step_told"};  ///< the step is reported, and its save has begun if one was due
inline constexpr Failpoint kStateGiven{
    "state_given"};  ///< a part of the state is sent to ranks that lack it, but the rest is not
inline constexpr Failpoint kStateTaken{
    "state_taken"};  ///< the state of another rank is loaded, but the step does not count yet

}  // namespace pharos::ml::failpoints
