#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/space.hpp>

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

}  // namespace pharos::ml
