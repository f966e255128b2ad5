// Charts, as SVG and as text.

#include <gtest/gtest.h>

#include <string>

#include <pharos/ml/chart.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

Axes ten_by_four() {
  Axes axes{.x_name = "trial", .first = 0, .last = 10};
  axes.set_heights(0, 4);
  return axes;
}

TEST(TextChart, DrawsDotsAndLinesWhereTheirValuesLie) {
  TextChart chart{ten_by_four(), 23, 5};
  chart.horizontal(0, 5, 2, '_');
  chart.vertical(10, '|');
  chart.dot({0, 0}, 'o');
  chart.dot({5, 2}, 'x');
  EXPECT_EQ(chart.text("x best"),
            "          4|          |\n"
            "           |          |\n"
            "           |_____x    |\n"
            "           |          |\n"
            "          0|o         |\n"
            "           +-----------\n"
            "            trial 0  10\n"
            "            x best\n");
}

TEST(TextChart, DrawsWhatLiesOutsideAtItsEdge) {
  TextChart chart{ten_by_four(), 23, 3};
  chart.dot({-3, 9}, 'a');
  chart.dot({99, -1}, 'b');
  EXPECT_EQ(chart.text(""),
            "          4|a\n"
            "           |\n"
            "          0|          b\n"
            "           +-----------\n"
            "            trial 0  10\n");
}

TEST(Axes, GiveOneValueARangeOfOneUnit) {
  Axes axes;
  axes.set_heights(3, 3);
  EXPECT_EQ(axes.low, 2.5);
  EXPECT_EQ(axes.high, 3.5);
  EXPECT_EQ(axes.share_y(3), 0.5);
}

TEST(SvgChart, HasTheTitleTheAxesAndWhatWasDrawn) {
  SvgChart chart{ten_by_four(), "a < b"};
  chart.dot({5, 2}, 3, "#1f77b4", 0.5);
  chart.line({{0, 0}, {10, 4}});
  chart.mark(10, "x & y");
  const std::string svg = chart.text();
  EXPECT_TRUE(contains(svg, ">a &lt; b</text>"));
  EXPECT_TRUE(contains(svg, ">trial</text>"));
  EXPECT_TRUE(contains(svg, "<circle cx=\"434.0\" cy=\"210.0\" r=\"3\" fill=\"#1f77b4\" fill-opacity=\"0.5\"/>"));
  EXPECT_TRUE(contains(svg, "points=\"84.0,380.0 784.0,40.0 \""));
  EXPECT_TRUE(contains(svg, ">x &amp; y</text>"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace pharos::ml
