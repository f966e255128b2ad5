#include "evaluation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "library.hpp"

namespace pharos::ml::xgboost {
namespace {

TEST(EvaluationTest, ALineOfMetricsIsRead) {
  const auto metrics = metrics_in("[12]\tset-auc:0.875\tset-ndcg@5-:0.25\tset-logloss:nan", "set");
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(*metrics->find("auc"), 0.875);
  EXPECT_EQ(*metrics->find("ndcg@5-"), 0.25);
  EXPECT_TRUE(std::isnan(*metrics->find("logloss")));
  EXPECT_EQ(metrics->entries().size(), 3U);
  EXPECT_TRUE(metrics_in("[0]", "set")->empty());
  EXPECT_EQ(metrics_in("[0]\tother-auc:1", "set").error().code(), ErrorCode::kInternal);
}

TEST(EvaluationTest, MetricsOfRankAndAreaAreBetterUpwards) {
  for (const char* const up : {"auc", "aucpr", "ndcg@3", "map", "pre@2"}) EXPECT_EQ(goal_of(up), Goal::kMaximise) << up;
  for (const char* const down : {"logloss", "rmse", "error@0.7", "mape", "mae", "mphe"}) {
    EXPECT_EQ(goal_of(down), Goal::kMinimise) << down;
  }
}

TEST(EvaluationTest, TheBestIsTheFirstOfEqualsAndNeverNan) {
  Best best{Goal::kMaximise};
  EXPECT_FALSE(best.add(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(best.rounds(), 0U);
  EXPECT_TRUE(best.add(2, -3));
  EXPECT_TRUE(best.add(3, 0.5));
  EXPECT_FALSE(best.add(4, 0.5));
  EXPECT_FALSE(best.add(5, 0.25));
  EXPECT_EQ(best.rounds(), 3U);
  EXPECT_EQ(best.value(), 0.5);
}

TEST(EvaluationTest, ErrorsAreWithoutTheirPlaceInXgboost) {
  EXPECT_EQ(readable("[12:34:56] ./src/objective/objective.cc:26: Unknown objective: `x`\n\nStack trace:\n  [bt] (0)"),
            "Unknown objective: `x`");
  EXPECT_EQ(readable("[12:34:56] WARNING: /workspace/src/learner.cc:740: \nParameters: { \"x\" } are not used.\n\n"),
            "WARNING: /workspace/src/learner.cc:740: \nParameters: { \"x\" } are not used.");
  EXPECT_EQ(readable("[12:34:56] /workspace/src/objective/regression_obj.cu:83: label must be\nStack trace:\n  [bt]"),
            "label must be");
  EXPECT_EQ(readable("Invalid Parameter format for max_depth"), "Invalid Parameter format for max_depth");
  EXPECT_EQ(readable(""), "");
}

}  // namespace
}  // namespace pharos::ml::xgboost
