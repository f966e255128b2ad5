#include <cstdlib>
#include <utility>

#include <pharos/ml/interrupts.hpp>
#include <pharos/ml/tuner.hpp>

#include "run/actor_slots.hpp"
#include "run/run_sweep.hpp"

namespace pharos::ml {
Tuner::Tuner(Runtime& runtime, TunerOptions options) : runtime_{runtime}, options_{std::move(options)} {
  complete(options_);
}

Tuner::~Tuner() = default;

SweepResults Tuner::run(detail::MakeTrialWorkers make, Existing existing) {
  if (options_.searcher == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "this tuner has already run its sweep", "Create another Tuner."});
  }
  ActorSlots slots{
      runtime_,
      std::move(make),
      ActorGroupOptions{
          .name = "trial", .size = options_.workers, .member = options_.worker, .strategy = options_.strategy},
      {.at_once = options_.at_once, .shares_cores = !options_.deterministic && options_.workers == 1}};
  const bool resumes = existing == Existing::kContinued || std::getenv("PHAROS_TUNE_RESUME") != nullptr;
  const Interrupts interrupts;
  return run_sweep(std::move(options_), slots,
                   resumes ? SweepFolder::Existing::kContinued : SweepFolder::Existing::kRefused,
                   [] { return Interrupts::asked(); });
}

}  // namespace pharos::ml
