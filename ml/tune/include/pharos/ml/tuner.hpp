#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/ml/trial_worker.hpp>
#include <pharos/ml/trial_workers.hpp>
#include <pharos/ml/tuner_options.hpp>

/// Sweeps over parameters, with many trials at the same time:
///
///   const ml::Space space{{"eta", ml::log_uniform(1e-4, 1e-1)}, {"depth", ml::integers(3, 9)}};
///   ml::Tuner tuner{runtime, {.space = space, .trials = 200, .scheduler = ml::asha({.most = 81})}};
///   const ml::SweepResults results = tuner.run<&objective>(data);
///   std::cout << results.table();
///
/// An objective is a function or a class. The first argument of a function is the trial (see trial.hpp), its Params, or
/// a struct that is read from these; the further arguments are those of run(). Each actor gets them once; if one is a
/// Ref, the actor gets its result, and a large result is mapped from shared memory. The function returns a number or
/// Metrics.
///
/// A class is constructed from the arguments of run(). The worker calls setup(params) and then step() again and again,
/// which returns a number or Metrics. If the class has save() and load(), its trials can pause, and continue from their
/// checkpoint when a worker has died. If it has reset(params), the next trial begins with reset() on the same object
/// instead of a new object.
namespace pharos::ml {

/// Runs one sweep: run() or restore() may be called once, by one thread, and return when the sweep has ended. That
/// thread also calls the searcher and the scheduler. The program owns the tuner, and the runtime must outlive it. The
/// tuner owns the actors of the trials, and ends them when run() returns or throws.
///
/// The constructor throws InvalidArgument if options make no sense. run() throws AlreadyExists if the folder has a
/// sweep, FailedPrecondition if another tuner works in the folder or if this tuner has run its sweep, an error of the
/// system as soon as the folder cannot be written to, Exhausted if the object store has no room for a checkpoint, the
/// actors' error if no worker can be made, UserError if ten trials in a row have failed with the same words and none
/// has a result, and what the searcher or the scheduler throws. After an error during the sweep, restore() of a new
/// tuner can continue it. What else goes wrong in a trial is in the results. Ctrl-C ends the sweep, and run() returns
/// the results so far; trials that still run are killed, and are kRunning in the results. A second Ctrl-C ends the
/// program.
class PHAROS_API Tuner {
 public:
  Tuner(Runtime& runtime, TunerOptions options);
  Tuner(Tuner&&) = delete;
  ~Tuner();

  template <auto Objective, class... Args>
  SweepResults run(Args&&... args) {
    return run(
        make<detail::FunctionWorker<Objective, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
        Existing::kRefused);
  }
  template <class T, class... Args>
  SweepResults run(Args&&... args) {
    return run(make<detail::ClassWorker<T, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
               Existing::kRefused);
  }
  /// Continues the sweep in the folder, or begins one if the folder has none. Finished trials keep their results;
  /// trials that were running start again from their last checkpoints. The options must be as before, except for the
  /// number of trials and for options that have no influence on proposals and decisions. Throws as run(), and
  /// FailedPrecondition if the journal does not fit the options. If PHAROS_TUNE_RESUME is set in the environment, run()
  /// acts as restore().
  template <auto Objective, class... Args>
  SweepResults restore(Args&&... args) {
    return run(
        make<detail::FunctionWorker<Objective, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
        Existing::kContinued);
  }
  template <class T, class... Args>
  SweepResults restore(Args&&... args) {
    return run(make<detail::ClassWorker<T, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
               Existing::kContinued);
  }

 private:
  enum class Existing : std::uint8_t { kRefused, kContinued };

  template <class Worker, class... Args>
  detail::MakeTrialWorkers make(Args&&... args) {
    using Kept = std::tuple<pharos::detail::KeptArgument<Args>...>;
    return [this, kept = std::make_shared<const Kept>(std::forward<Args>(args)...)](const ActorGroupOptions& options) {
      return std::apply(
          [&](const auto&... each) -> std::unique_ptr<detail::TrialWorkers> {
            return std::make_unique<detail::GroupOfTrialWorkers<Worker>>(
                runtime_.spawn_group<Worker>(options, each...));
          },
          *kept);
    };
  }
  SweepResults run(detail::MakeTrialWorkers make, Existing existing);

  Runtime& runtime_;
  TunerOptions options_;
};

}  // namespace pharos::ml
