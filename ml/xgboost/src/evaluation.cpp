#include "evaluation.hpp"

#include <cmath>
#include <cstdlib>

namespace pharos::ml::xgboost {

Result<Metrics> metrics_in(std::string_view line, std::string_view name) {
  Metrics metrics;
  for (std::size_t tab = line.find('\t'); tab != std::string_view::npos;) {
    const std::size_t next = line.find('\t', tab + 1);
    std::string_view each = line.substr(tab + 1, next == std::string_view::npos ? next : next - tab - 1);
    tab = next;
    const std::size_t colon = each.rfind(':');
    if (colon == std::string_view::npos || !each.starts_with(std::string{name} + "-")) {
      return Error{ErrorCode::kInternal, "XGBoost's line of metrics is \"" + std::string{line} + "\""};
    }
    const std::string value{each.substr(colon + 1)};
    metrics.set(each.substr(name.size() + 1, colon - name.size() - 1), std::strtod(value.c_str(), nullptr));
  }
  return metrics;
}

Goal goal_of(std::string_view metric) {
  if (metric == "mape") return Goal::kMinimise;
  for (const std::string_view up : {"auc", "pre", "map", "ndcg", "interval-regression-accuracy"}) {
    if (metric.starts_with(up)) return Goal::kMaximise;
  }
  return Goal::kMinimise;
}

bool Best::add(std::uint64_t rounds, double value) {
  const bool better = goal_ == Goal::kMaximise ? value > value_ : value < value_;
  if (std::isnan(value) || (rounds_ != 0 && !better)) return false;
  value_ = value;
  rounds_ = rounds;
  return true;
}

}  // namespace pharos::ml::xgboost
