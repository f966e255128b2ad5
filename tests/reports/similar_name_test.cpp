#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/similar_name.hpp>

namespace pharos::ml {
namespace {

const std::vector<std::string> kReported{"loss", "lr", "validation_loss", "validation_accuracy", "accuracy"};

TEST(SimilarName, IsWhatSomebodyMeant) {
  EXPECT_EQ(similar_name("los", kReported), "loss");
  EXPECT_EQ(similar_name("acuracy", kReported), "accuracy");
  EXPECT_EQ(similar_name("validation_lost", kReported), "validation_loss");
  EXPECT_EQ(similar_name("Validation_Accuracy", kReported), "validation_accuracy");
  EXPECT_EQ(similar_name("val_loss", kReported), "validation_loss");
  EXPECT_EQ(similar_name("val_acc", kReported), "validation_accuracy");
  EXPECT_EQ(similar_name("acc", kReported), "accuracy");
}

TEST(SimilarName, IsTheNearest) {
  EXPECT_EQ(similar_name("recall_1", {"recall_10", "recall_2", "recall_1"}), "recall_1");
  EXPECT_EQ(similar_name("accuracys", {"accurate", "accuracy"}), "accuracy");
}

TEST(SimilarName, IsNoneAmongNamesOfOtherThings) {
  EXPECT_EQ(similar_name("sum", kReported), std::nullopt);
  EXPECT_EQ(similar_name("validation_recall_10", kReported), std::nullopt);
  EXPECT_EQ(similar_name("s", kReported), std::nullopt);
  EXPECT_EQ(similar_name("", kReported), std::nullopt);
  EXPECT_EQ(similar_name("loss", {}), std::nullopt);
  EXPECT_EQ(similar_name("loss", {""}), std::nullopt);
}

}  // namespace
}  // namespace pharos::ml
