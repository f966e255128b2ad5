#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <pharos/ml/xgboost.hpp>

namespace pharos::ml::xgboost {

/// Two classes that depend on products and squares of eight columns, and on noise.
inline Data two_classes(std::size_t rows, unsigned seed = 1) {
  constexpr std::size_t kColumns = 8;
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> features(rows * kColumns);
  std::vector<float> labels(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    float* const x = &features[row * kColumns];
    std::generate_n(x, kColumns, [&] { return normal(random); });
    labels[row] = x[0] * x[1] + x[2] * x[2] + x[3] + 0.7F * normal(random) > 1 ? 1 : 0;
  }
  return {.columns = kColumns,
          .features = SharedSpan<float>{std::move(features)},
          .labels = SharedSpan<float>{std::move(labels)}};
}

/// The area under the ROC curve: how often a row of label 1 has a larger value than a row of label 0.
inline double auc(std::span<const float> values, std::span<const float> labels) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  double rank_sum = 0;
  double ones = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;  // the mean rank of equal values
    for (std::size_t i = begin; i < end; ++i) {
      if (labels[order[i]] == 1) {
        rank_sum += rank;
        ++ones;
      }
    }
    begin = end;
  }
  const double zeros = static_cast<double>(values.size()) - ones;
  return (rank_sum - ones * (ones + 1) / 2) / (ones * zeros);
}

inline std::vector<float> column(const Data& data, std::size_t which) {
  std::vector<float> values(data.rows());
  for (std::size_t row = 0; row < data.rows(); ++row) values[row] = data.features[row * data.columns + which];
  return values;
}

inline Params logistic(std::initializer_list<Params::Entry> more = {}) {
  Params params{{"objective", std::string{"binary:logistic"}}, {"eval_metric", std::string{"auc"}}};
  for (const auto& [name, value] : more) params.set(name, value);
  return params;
}

}  // namespace pharos::ml::xgboost
