#include <gtest/gtest.h>

#include <string>

#include <pharos/scheduler/labels.hpp>

namespace pharos::scheduler {
namespace {

TEST(LabelsTest, TextsAreReadAndWhatMakesNoSenseIsSaid) {
  EXPECT_EQ(*parse_labels("zone=a, disk=ssd"), (Labels{{"zone", "a"}, {"disk", "ssd"}}));
  EXPECT_EQ(*parse_labels(""), Labels{});
  const auto why = [](const std::string& text) { return parse_labels(text).error().message(); };
  EXPECT_EQ(why("zone"), "the label \"zone\" is invalid: it has no value");
  EXPECT_EQ(why("zone=a,zone=b"), "the label \"zone=b\" is invalid: its name occurs twice");
  EXPECT_NE(why("zone=a b").find("a name has 1 to 64"), std::string::npos);
  EXPECT_NE(why("=a").find("a name has 1 to 64"), std::string::npos);
  EXPECT_NE(why("zone=" + std::string(65, 'a')).find("a name has 1 to 64"), std::string::npos);
  std::string many;
  for (int i = 0; i < 65; ++i) many += "l" + std::to_string(i) + "=a,";
  EXPECT_NE(why(many).find("more than 64 labels"), std::string::npos);
}

TEST(LabelsTest, RulesHoldOrDoNot) {
  const Labels labels{{"zone", "a"}};
  const auto holds = [&](const std::string& name, const std::string& rule) {
    return LabelRule::parse(name, rule)->holds_for(labels);
  };
  EXPECT_TRUE(holds("zone", "a"));
  EXPECT_FALSE(holds("zone", "b"));
  EXPECT_FALSE(holds("zone", "!a"));
  EXPECT_TRUE(holds("zone", "in(b, a)"));
  EXPECT_FALSE(holds("zone", "!in(b,a)"));
  EXPECT_TRUE(holds("disk", "!ssd")) << "it has none";
  EXPECT_FALSE(holds("disk", "ssd"));
  EXPECT_EQ(LabelRule::parse("zone", "!in(b,a)")->to_string(), "zone not in (b, a)");
  EXPECT_EQ(LabelRule::parse("zone", "!b")->to_string(), "zone!=b");
}

TEST(LabelsTest, WhatOthersHaveNamedBecomesALabelsValue) {
  EXPECT_EQ(as_label("NVIDIA A100-SXM4-80GB"), "NVIDIA-A100-SXM4-80GB");
  EXPECT_EQ(as_label("  Quadro (R)  RTX/8000 "), "Quadro-R-RTX/8000");
  EXPECT_EQ(as_label(std::string(100, 'x')).size(), 64u);
  EXPECT_EQ(as_label(""), "");
  const std::string strange = as_label("\xe2\x84\xa2 a,b=c");
  EXPECT_TRUE(check_labels({{"gpu_type", strange}}).ok()) << strange;
}

TEST(LabelsTest, RulesThatMakeNoSenseAreRefused) {
  for (const char* const rule : {"", "!", "in()", "in(a", "a,,b", "a b", "in(a,\x01)"}) {
    EXPECT_FALSE(LabelRule::parse("zone", rule).ok()) << rule;
  }
  EXPECT_FALSE(LabelRule::parse("", "a").ok());
  EXPECT_FALSE(LabelRule::parse(std::string(1 << 20, 'z'), "a").ok());
  EXPECT_FALSE((LabelRule{"zone", {}, true}.check().ok()));
  EXPECT_FALSE((LabelRule{"zone", std::vector<std::string>(65, "a")}.check().ok()));
  EXPECT_TRUE((LabelRule{"zone", {"a"}}.check().ok()));
}

}  // namespace
}  // namespace pharos::scheduler
