#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include <pharos/ml/curve.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

Curve falling(std::size_t steps, double from) {
  Curve curve{.title = "loss"};
  for (std::size_t i = 1; i <= steps; ++i) {
    curve.points.push_back({static_cast<double>(i), from / static_cast<double>(i)});
  }
  return curve;
}

/// Returns the highest label of the axis in the terminal.
std::string highest(const std::string& picture) {
  const std::size_t line = picture.find('\n') + 1;
  const std::size_t begin = picture.find_first_not_of(' ', line);
  return picture.substr(begin, picture.find('|', line) - begin);
}

TEST(CurveTest, ShowsWhereALossBegan) {
  const Curve curve = falling(100, 2);
  Curve steep = curve;
  steep.points[0].y = 2.5;
  EXPECT_EQ(highest(to_text_picture(steep)), "2.5");
  EXPECT_TRUE(contains(to_svg(steep), ">2.5</text>"));
}

TEST(CurveTest, AFewThatAreFarOffDoNotPressTheOthersTogether) {
  Curve curve = falling(100, 2);
  curve.points[50].y = 1e6;
  const std::string picture = to_text_picture(curve);
  EXPECT_EQ(highest(picture), "2") << picture;
  EXPECT_FALSE(contains(to_svg(curve), "200000"));
}

TEST(CurveTest, LeavesOutWhatIsNoNumber) {
  Curve curve = falling(4, 2);
  curve.points[1].y = std::numeric_limits<double>::quiet_NaN();
  curve.points[2].y = std::numeric_limits<double>::infinity();
  const std::string svg = to_svg(curve);
  EXPECT_FALSE(contains(svg, "nan"));
  EXPECT_FALSE(contains(svg, "inf"));
  EXPECT_EQ(to_text_picture({.title = "nothing"}), "there is nothing to draw\n");
  EXPECT_TRUE(contains(to_svg({.title = "nothing"}), "</svg>"));
}

TEST(CurveTest, WhatHappenedIsMarkedAndNamed) {
  Curve curve = falling(100, 2);
  const std::string unmarked = to_text_picture(curve);
  curve.marks = {50};
  curve.mark_name = "here a rank died";
  const std::string svg = to_svg(curve);
  EXPECT_TRUE(contains(svg, ">here a rank died</text>"));
  EXPECT_TRUE(contains(svg, "stroke-dasharray"));
  const std::string picture = to_text_picture(curve);
  EXPECT_TRUE(contains(picture, "| here a rank died\n")) << picture;
  // Each row has the bar of the axis. Rows without a point at step 50 also have the bar of the mark.
  const auto bars = [](const std::string& text) { return std::count(text.begin(), text.end(), '|'); };
  EXPECT_GE(bars(picture), bars(unmarked) + 10) << picture;
  EXPECT_FALSE(contains(unmarked, "died"));
}

TEST(CurveTest, AMarkThatIsNoNumberIsLeftOut) {
  Curve curve = falling(100, 2);
  curve.mark_name = "here a rank died";
  const std::string unmarked = to_text_picture(curve);
  curve.marks = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  EXPECT_EQ(to_text_picture(curve), unmarked);
  const std::string svg = to_svg(curve);
  EXPECT_FALSE(contains(svg, "nan"));
  EXPECT_FALSE(contains(svg, "stroke-dasharray"));
  curve.marks.push_back(50);
  EXPECT_TRUE(contains(to_svg(curve), ">here a rank died</text>")) << "the first mark that is drawn has the name";
}

TEST(CurveTest, ATitleIsText) {
  Curve curve = falling(4, 2);
  curve.title = "<a & \"b\">";
  EXPECT_TRUE(contains(to_svg(curve), ">&lt;a &amp; &quot;b&quot;&gt;</text>"));
}

}  // namespace
}  // namespace pharos::ml
