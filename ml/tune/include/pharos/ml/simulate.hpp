#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/tuner.hpp>

/// Sweeps in simulated time. The tuner is the real one; its trials only say how long each step would take. Hours of a
/// thousand workers pass in a moment, and a sweep is the same each time. This shows what a searcher or a trial
/// scheduler does, and serves to test one.
///
///   const auto results = ml::simulate({.space = space, .trials = 1000, .scheduler = ml::asha()}, 64,
///                                     [](const ml::Params& params, std::uint64_t step, std::vector<double>&) {
///                                       return ml::SimulatedStep{.metrics = loss(params, step), .time = 30s};
///                                     });
namespace pharos::ml {

struct SimulatedStep {
  Metrics metrics{};
  Duration time{};    ///< how long the step takes, in simulated time
  bool last = false;  ///< the objective returns after this step
  bool dies = false;  ///< the worker dies in this step; its metrics are lost
};

/// Computes one step of a trial; the first step is 1. The next step gets `state` as this one leaves it, and `state` is
/// also the trial's checkpoint. What it throws ends the sweep, and simulate() throws it.
using SimulatedObjective =
    std::function<SimulatedStep(const Params& params, std::uint64_t step, std::vector<double>& state)>;

/// Runs a sweep on simulated workers, each of which runs one trial at a time. Calls `objective` on the caller's thread
/// and returns when the sweep has ended. The options mean what they mean to a Tuner, except that `at_once` becomes
/// `workers`, no progress is shown, and Ctrl-C is not handled. Throws InvalidArgument if there are no workers,
/// AlreadyExists if the folder has a sweep, and otherwise as a Tuner. Any thread.
PHAROS_API SweepResults simulate(TunerOptions options, std::size_t workers, const SimulatedObjective& objective);

}  // namespace pharos::ml
