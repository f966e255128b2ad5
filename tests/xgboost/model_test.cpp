#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/xgboost.hpp>

#include "generated.hpp"
#include "says.hpp"

namespace pharos::ml::xgboost {
namespace {

TEST(ModelTest, BytesAndJsonPredictTheSame) {
  const Data data = two_classes(1000);
  const Trained trained = train(logistic(), data, {}, {.rounds = 12});
  const Model model{trained.model};
  EXPECT_EQ(model.columns(), 8U);
  EXPECT_EQ(model.rounds(), 12U);
  const auto predicted = model.predict(data.features.span());
  ASSERT_EQ(predicted.size(), 1000U);
  EXPECT_EQ(Model{Bytes::copy_of(trained.model.span())}.predict(data.features.span()), predicted);
  const std::string json = model.to_json();
  EXPECT_SAYS(json, "binary:logistic");
  EXPECT_EQ(Model{Bytes{json}}.predict(data.features.span()), predicted);
  EXPECT_TRUE(model.predict({}).empty());
}

TEST(ModelTest, SeveralThreadsPredictAtOnce) {
  const Data data = two_classes(2000);
  const Model model{train(logistic(), data, {}, {.rounds = 20}).model};
  const auto expected = Model{model.to_json().empty() ? Bytes{} : Bytes{model.to_json()}}.predict(data.features.span());
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> predicted(4);
  for (auto& each : predicted) threads.emplace_back([&] { each = model.predict(data.features.span()); });
  for (auto& thread : threads) thread.join();
  for (const auto& each : predicted) EXPECT_EQ(each, expected);
}

TEST(ModelTest, OfSeveralClassesEachHasAProbability) {
  std::vector<float> features;
  std::vector<float> labels;
  for (int row = 0; row < 300; ++row) {
    features.insert(features.end(), {static_cast<float>(row % 3), static_cast<float>(row)});
    labels.push_back(static_cast<float>(row % 3));
  }
  const Data data{.columns = 2, .features = SharedSpan<float>{features}, .labels = SharedSpan<float>{labels}};
  const Params params{{"objective", std::string{"multi:softprob"}}, {"num_class", std::int64_t{3}}};
  const Trained trained = train(params, data, {}, {.rounds = 10});
  EXPECT_LT(*trained.metrics.find("mlogloss"), 0.1);
  const auto predicted = Model{trained.model}.predict(std::vector<float>{2, 50, 0, 51});
  ASSERT_EQ(predicted.size(), 6U);
  EXPECT_GT(predicted[2], 0.9F);
  EXPECT_GT(predicted[3], 0.9F);
  EXPECT_NEAR(predicted[0] + predicted[1] + predicted[2], 1, 1e-5);
}

TEST(ModelTest, WhatIsNoModelIsRefused) {
  EXPECT_SAYS(message_of<InvalidArgument>([] { Model{Bytes{std::string{"{\"this\": 1}"}}}; }),
              "loading a model of 11 bytes");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Model{Bytes{}}; }), "loading a model of 0 bytes");
  const Model model{train(logistic(), two_classes(200), {}, {.rounds = 2}).model};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(model.predict(std::vector<float>(9))); }),
              "9 features are not a multiple of the model's 8 columns");
}

}  // namespace
}  // namespace pharos::ml::xgboost
