#pragma once

#include <functional>

#include <pharos/ml/tuner.hpp>

#include "slots.hpp"
#include "sweep_loop.hpp"

namespace pharos::ml {

/// Throws InvalidArgument where they make no sense; what is left open gets its default.
void complete(TunerOptions& options);

/// A sweep as its options say, from its begin, or from where its folder has it, to its end. Throws.
SweepResults run_sweep(TunerOptions options, TrialSlots& slots, SweepLoop::Existing existing,
                       const std::function<bool()>& interrupted);

}  // namespace pharos::ml
