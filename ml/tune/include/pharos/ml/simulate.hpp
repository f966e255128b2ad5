#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/tuner.hpp>

/// Sweeps in a time of their own: the same tuner, with trials that only say how long a step would take. Hours of a
/// thousand workers are over in a moment, and the same each time: to see what a searcher or a trial scheduler does, and
/// to test one.
///
///   const auto results = ml::simulate({.space = space, .trials = 1000, .scheduler = ml::asha()}, 64,
///                                     [](const ml::Params& params, std::uint64_t step, std::vector<double>&) {
///                                       return ml::SimulatedStep{.metrics = loss(params, step), .time = 30s};
///                                     });
namespace pharos::ml {

struct SimulatedStep {
  Metrics metrics{};
  Duration time{};    ///< that it took
  bool last = false;  ///< the objective comes back with it
  bool dies = false;  ///< or its worker has died meanwhile
};

/// One step of a trial, from 1. What it leaves in `state` is there in the next step, and is what a trial saves.
using SimulatedObjective =
    std::function<SimulatedStep(const Params& params, std::uint64_t step, std::vector<double>& state)>;

/// With so many workers, each of which runs one trial at a time. Options are the tuner's; nothing is shown while it
/// runs.
PHAROS_API SweepResults simulate(TunerOptions options, std::size_t workers, const SimulatedObjective& objective);

}  // namespace pharos::ml
