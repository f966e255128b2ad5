#pragma once

#include <cstddef>

#include <pharos/base/export.hpp>
#include <pharos/ml/simulated_step.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/tuner_options.hpp>

/// Sweeps in simulated time. The tuner is the real one; its trials only say how long each step would take. Hours of a
/// thousand workers pass in a moment, and a sweep is the same each time. This shows what a searcher or a trial
/// scheduler does, and serves to test one.
///
///   const auto results = ml::simulate({.space = space, .trials = 1000, .scheduler = ml::asha()}, 64,
///                                     [](const ml::Params& params, std::uint64_t step, std::vector<double>&) {
///                                       return ml::SimulatedStep{.metrics = loss(params, step), .time = 30s};
///                                     });
namespace pharos::ml {

/// Runs a sweep on simulated workers, each of which runs one trial at a time. Calls `objective` on the caller's thread
/// and returns when the sweep has ended. The options mean what they mean to a Tuner, except that `at_once` becomes
/// `workers`, no progress is shown, and Ctrl-C is not handled. Throws InvalidArgument if there are no workers,
/// AlreadyExists if the folder has a sweep, and otherwise as a Tuner. Any thread.
PHAROS_API SweepResults simulate(TunerOptions options, std::size_t workers, const SimulatedObjective& objective);

}  // namespace pharos::ml
