#pragma once

#include <string>
#include <vector>

#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

class TrainContext;
class Validation;

/// Looks whether a training will have the metrics that options of its trainer look at (TrainContext::asked_for()),
/// before the training has changed anything. A learner does not declare its metrics, so their names are known only when
/// it has run: those of a validation after one batch of it, and those of a step in the first step. Owned by the loop of
/// fit(), which outlives no context; the rank's thread.
///
/// A metric that is missing throws InvalidArgument where no other code can report it. If the learner has callbacks that
/// may log any name at any time, rank 0 logs a warning instead.
class AskedMetrics {
 public:
  AskedMetrics(const TrainContext& context, const FitOptions& options, bool callbacks_may_log);

  /// Called before the first step. Runs one batch of the validation if a metric of validations is asked for, and only
  /// then. Later calls do nothing. A process that has taken the place of a dead rank does nothing either: the other
  /// ranks do not take part any more.
  void look_at(Validation& validation);
  /// Called in the first step, with what it reports, before a parameter changes. Here a metric throws only if it seems
  /// to be misspelt: a learner may log others in later steps. The trainer warns of these when it has reports.
  void look_at(const Metrics& of_step);

 private:
  /// Throws, or logs, that the metric is missing. `has`: the names among which it is.
  void miss(const std::string& metric, const std::string& where, const std::vector<std::string>& has) const;

  const TrainContext& context_;
  const FitOptions& options_;
  const bool callbacks_may_log_;
  bool has_seen_validation_ = false;
  bool has_seen_step_ = false;
  std::vector<std::string> of_validation_{};
};

}  // namespace pharos::ml
