#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

namespace pharos::ml::xgboost {

/// Parses XGBoost's line of metrics for the data set `name`: "[3]\tname-auc:0.81\tname-ndcg@5-:0.7". Returns kInternal
/// if the line has another form.
Result<Metrics> metrics_in(std::string_view line, std::string_view name);

/// Returns whether a metric of XGBoost is better if it is larger or smaller.
Goal goal_of(std::string_view metric);

/// The best value so far of one metric, and the number of rounds that the model had then. A value; one training has it.
class Best {
 public:
  explicit Best(Goal goal) : goal_{goal} {}
  /// Continues from the best value of an earlier training.
  Best(Goal goal, double value, std::uint64_t rounds) : goal_{goal}, value_{value}, rounds_{rounds} {}

  /// Adds the value after so many rounds. Returns true if it is the best so far. NaN never is.
  bool add(std::uint64_t rounds, double value);
  double value() const { return value_; }
  std::uint64_t rounds() const { return rounds_; }

 private:
  Goal goal_;
  double value_ = 0;
  std::uint64_t rounds_ = 0;  // 0: there is no value yet
};

}  // namespace pharos::ml::xgboost
