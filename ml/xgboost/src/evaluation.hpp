#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

namespace pharos::ml::xgboost {

/// What XGBoost has measured of the one set `name`, from its line: "[3]\tname-auc:0.81\tname-ndcg@5-:0.7".
Result<Metrics> metrics_in(std::string_view line, std::string_view name);

/// Which way a metric of XGBoost's is better.
Goal goal_of(std::string_view metric);

/// The best so far of one metric, and for how many rounds nothing was better.
class Best {
 public:
  explicit Best(Goal goal) : goal_{goal} {}
  /// Goes on from there.
  Best(Goal goal, double value, std::uint64_t rounds) : goal_{goal}, value_{value}, rounds_{rounds} {}

  /// True: it is the best so far.
  bool add(std::uint64_t rounds, double value);
  double value() const { return value_; }
  std::uint64_t rounds() const { return rounds_; }

 private:
  Goal goal_;
  double value_ = 0;
  std::uint64_t rounds_ = 0;  // 0: none so far
};

}  // namespace pharos::ml::xgboost
