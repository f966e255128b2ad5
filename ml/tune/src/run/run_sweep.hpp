#pragma once

#include <functional>

#include <pharos/ml/tuner.hpp>

#include "run/slots.hpp"
#include "run/sweep_loop.hpp"

namespace pharos::ml {

/// Sets options that were left open to their defaults. Throws InvalidArgument if the options make no sense.
void complete(TunerOptions& options);

/// Runs a sweep to its end, or until `interrupted` returns true. It continues the sweep in its folder if `existing` is
/// kContinued. The options must be complete. Throws as Tuner::run().
SweepResults run_sweep(TunerOptions options, TrialSlots& slots, SweepFolder::Existing existing,
                       const std::function<bool()>& interrupted);

}  // namespace pharos::ml
