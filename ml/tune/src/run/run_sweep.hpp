#pragma once

#include <functional>

#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/tuner_options.hpp>

#include "run/slots.hpp"
#include "run/sweep_loop.hpp"

namespace pharos::ml {

/// Sets options that were left open to their defaults. Throws InvalidArgument if the options make no sense. Tuner and
/// simulate() call it.
void complete(TunerOptions& options);

/// Runs a sweep to its end, or until `interrupted` returns true. It continues the sweep in its folder if `existing` is
/// kContinued. The options must be complete. Tuner and simulate() call it with new slots, and destroy the slots after
/// it: trials may still run there. Everything, `interrupted` and the searcher included, is called on the caller's
/// thread. Throws as Tuner::run().
SweepResults run_sweep(TunerOptions options, TrialSlots& slots, SweepFolder::Existing existing,
                       const std::function<bool()>& interrupted);

}  // namespace pharos::ml
