#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/state.hpp>

namespace pharos::ml {

class Learner;
class TrainContext;

/// What a FitCallback sees of the training, and does to it. Owned by fit(), and valid while fit() runs. The rank's
/// thread. Functions that change something do so on this rank: call them alike on all ranks, unless a function says
/// more.
class PHAROS_API FitControl {
 public:
  FitControl() = default;
  FitControl(FitControl&&) = delete;
  virtual ~FitControl();

  virtual Learner& learner() = 0;
  /// The training: its ranks and steps.
  virtual TrainContext& context() = 0;
  /// The epoch of the present step, from 0 on.
  virtual std::uint64_t epoch() const = 0;
  /// Adds a number to the report of this step, or replaces the one of that name. Only in FitCallback::after_step() and
  /// at_epoch_end(); throws FailedPrecondition elsewhere. Rank 0's number is reported.
  virtual void log(std::string_view name, double value) = 0;
  /// Ends the training on all ranks after the next step, with a checkpoint if there is a folder. One rank is enough,
  /// but if a rank dies in between, only what rank 0 has asked for is sure to be remembered.
  virtual void stop() = 0;
  /// The learning rate of each step is multiplied by this factor. Checkpoints keep it.
  virtual double rate_factor() const = 0;
  virtual void set_rate_factor(double factor) = 0;
};

/// Is told what happens in a training, on each rank: see Learner::callbacks(). A step that is done again, because a
/// rank has died, is told again; what add_to_state() has added is then as it was before that step. What a function
/// throws comes out of fit() on this rank. The rank's thread.
class PHAROS_API FitCallback {
 public:
  FitCallback() = default;
  FitCallback(FitCallback&&) = delete;
  virtual ~FitCallback();

  /// After the newest checkpoint, if there is one, was loaded. A process that takes the place of a dead rank is told
  /// this alone: do not work with other ranks here, and do not change the rate.
  virtual void at_begin(FitControl&) {}
  /// Before the first step of an epoch. A training that resumes in the middle of an epoch is not told this.
  virtual void at_epoch_begin(FitControl&) {}
  /// Before forward.
  virtual void before_step(FitControl&) {}
  /// After the parameters have changed. `metrics`: the means over the ranks that are reported, of a validation too, but
  /// not what callbacks log.
  virtual void after_step(FitControl&, const Metrics& metrics) { static_cast<void>(metrics); }
  /// After after_step() of the last step of an epoch.
  virtual void at_epoch_end(FitControl&, const Metrics& metrics) { static_cast<void>(metrics); }
  /// When the training has ended or was stopped; not if it has failed.
  virtual void at_end(FitControl&) {}
  /// Returns false if it never calls FitControl::log(). If no callback does, fit() knows before the training which
  /// metrics there will be, and refuses a misspelt one.
  virtual bool logs() const { return true; }
  /// Adds what the training resumes from. A process that takes the place of a dead rank gets it from the other ranks.
  virtual void add_to_state(State&) {}
};

/// How the learning rate follows a plateau. A value.
struct Plateau {
  std::string metric = "validation_loss";
  bool is_better_lower = true;
  double factor = 0.1;  ///< The rate is multiplied by it on a plateau.
  /// A plateau is when so many reports of the metric in a row were not better than the best one.
  std::uint64_t patience = 10;
  double improvement_min = 0;  ///< A report is better only if it differs from the best one by more than this.
  double rate_factor_min = 0;  ///< FitControl::rate_factor() is lowered no further.
};
/// Lowers the learning rate on all ranks when a metric no longer improves. Reports without the metric do not count.
/// Throws InvalidArgument unless the factor is between 0 and 1.
PHAROS_API std::shared_ptr<FitCallback> lower_rate_on(const Plateau& plateau);

}  // namespace pharos::ml
