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

TEST(SvgChart, HasItsGridAtRoundNumbers) {
  EXPECT_EQ(round_step(1, 5), 0.2);
  EXPECT_EQ(round_step(7.3, 6), 2);
  EXPECT_EQ(round_step(300, 6), 50);
  EXPECT_DOUBLE_EQ(round_step(0.0031, 6), 0.001);
  EXPECT_EQ(round_step(0, 6), 1);
  Axes axes{.x_name = "step", .first = 3, .last = 997};
  axes.set_heights(0.137, 2.38);
  const std::string svg = SvgChart{axes, "loss"}.text();
  for (const char* const each :
       {">0</text>", ">0.5</text>", ">1</text>", ">2.5</text>", ">200</text>", ">800</text>"}) {
    EXPECT_TRUE(contains(svg, each)) << each << '\n' << svg;
  }
  for (const char* const each : {">0.137</text>", ">2.38</text>", ">3</text>", ">997</text>", ">-0</text>"}) {
    EXPECT_FALSE(contains(svg, each)) << each << '\n' << svg;
  }
}

TEST(SvgChart, MarksWhatLiesBeyondTheEdge) {
  SvgChart chart{ten_by_four(), "a"};
  chart.dot({5, 2}, 3, "#1f77b4", 0.5);
  EXPECT_FALSE(contains(chart.text(), "beyond"));
  chart.dot({5, 40}, 3, "#1f77b4", 0.5);
  chart.dot({5, -1}, 3, "#1f77b4", 0.5);
  EXPECT_TRUE(contains(chart.text(), ">triangles: 2 beyond the edge</text>"));
  EXPECT_TRUE(contains(chart.text(), "<path d=\"M434.0 34.0l-3 6h6z\" fill=\"#1f77b4\"/>")) << chart.text();
  EXPECT_TRUE(contains(chart.text(), "<path d=\"M434.0 386.0l-3 -6h6z\" fill=\"#1f77b4\"/>")) << chart.text();
}

}  // namespace
}  // namespace pharos::ml
