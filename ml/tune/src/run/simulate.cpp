#include <utility>

#include <pharos/ml/simulate.hpp>

#include "run/run_sweep.hpp"
#include "run/simulated_slots.hpp"

namespace pharos::ml {

SweepResults simulate(TunerOptions options, std::size_t workers, const SimulatedObjective& objective) {
  if (workers == 0) {
    throw_error(
        Error{ErrorCode::kInvalidArgument, "a simulated sweep needs at least one worker", "Pass 1 worker or more."});
  }
  options.at_once = workers;
  options.progress = false;
  complete(options);
  SimulatedSlots slots{workers, objective};
  return run_sweep(std::move(options), slots, SweepFolder::Existing::kRefused, [] { return false; });
}

}  // namespace pharos::ml
