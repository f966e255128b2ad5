#pragma once

#include <vector>

#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/measures.hpp>
#include <pharos/ml/metrics.hpp>

namespace pharos::ml {

class Learner;
class LoggedMeans;
class TrainContext;

/// Validates a learner's module on all ranks together: each sample counts once. Owned by the loop of fit(), and
/// outlived by what it is made of. The rank's thread. Throws what the learner throws, and what fails between ranks.
class Validation {
 public:
  /// `loading`: how a rank gets its share. Throws InvalidArgument if there are fewer samples than ranks.
  Validation(TrainContext& context, Learner& learner, const FitOptions& options, LoaderOptions loading,
             LoggedMeans& logged);

  /// false: the learner has no validation data.
  bool has_data() const { return data_ != nullptr; }
  /// What a report says of the module as it is now. All ranks call it.
  Metrics run();

 private:
  void add_batch(const Batch& batch);

  TrainContext& context_;
  Learner& learner_;
  const FitOptions& options_;
  const DatasetPtr data_;
  LoaderOptions loading_;
  LoggedMeans& logged_;
  const std::vector<NamedMeasure> measures_;
};

}  // namespace pharos::ml
