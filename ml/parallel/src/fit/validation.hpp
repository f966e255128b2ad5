#pragma once

#include <string>
#include <vector>

#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/measures.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

class Learner;
class LoggedMeans;
class TrainContext;

/// The loader's options for a pass in which each sample of the data counts once. `what` names the data in messages.
/// Throws InvalidArgument if there are fewer samples than ranks.
LoaderOptions loading_of_pass(const TrainContext& context, Learner& learner, const FitOptions& options,
                              const Dataset& data, const std::string& what);

/// What a learner's module is tried on, and how. A value.
struct Pass {
  std::string what;                          ///< "validation", for messages and before the names that it reports
  DatasetPtr data;                           ///< nullptr: there is none
  Metrics (Learner::*step)(const Batch&){};  ///< what is done with each batch

  static Pass validation(Learner& learner);
  static Pass test(Learner& learner);
};

/// Validates a learner's module on all ranks together, or tests it: each sample counts once. Owned by fit() and
/// test(), and outlived by what it is made of. The rank's thread. Throws what the learner throws, and what fails
/// between ranks.
class Validation {
 public:
  /// Throws InvalidArgument if there are fewer samples than ranks.
  Validation(TrainContext& context, Learner& learner, const FitOptions& options, Pass pass, LoggedMeans& logged);

  /// false: the learner has no data for it.
  bool has_data() const { return pass_.data != nullptr; }
  /// What a report says of the module as it is now. All ranks call it.
  Metrics run();
  /// The names that run() will report, found out with one batch of each rank. All ranks call it if they have divided
  /// the model. The training goes on as if it had not been called: random generators are put back, and a module in
  /// evaluation mode changes no buffers.
  std::vector<std::string> names();

 private:
  void begin();
  void add_batch(const Batch& batch);
  std::string reported(const std::string& name) const;

  TrainContext& context_;
  Learner& learner_;
  const FitOptions& options_;
  const Pass pass_;
  LoaderOptions loading_;
  LoggedMeans& logged_;
  const std::vector<NamedMeasure> measures_;
};

}  // namespace pharos::ml
