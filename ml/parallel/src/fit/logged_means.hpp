#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/ml/metrics.hpp>

#include "module/reading.hpp"

namespace pharos::ml {

class TrainContext;

/// The means that a learner logs about batches. The learner owns it during fit(); the rank's thread. A device goes on
/// while the host waits in take(), which waits only for what was done before the last log().
class LoggedMeans {
 public:
  /// Forgets what was logged, for instance in a step that is done again.
  void clear() { parts_.clear(); }
  /// What is logged from now on is about a batch of so many samples that count.
  void begin_batch(double samples) { samples_ = samples; }
  /// `mean`: one number. Throws InvalidArgument if it is not.
  void log(std::string_view name, const at::Tensor& mean);

  /// The means over all batches since the last take(), by name, and forgets them.
  Metrics take();
  /// Like take(), but with the names of rank 0, for a step in which a rank may have had no batch. All ranks call it;
  /// throws what fails between them.
  Metrics take_as_rank_0(TrainContext& context);

 private:
  struct Part {
    Reading mean;
    double samples;
  };
  std::map<std::string, std::vector<Part>, std::less<>> parts_;
  double samples_ = 0;
};

}  // namespace pharos::ml
