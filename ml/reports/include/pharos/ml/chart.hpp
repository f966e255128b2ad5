#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// The axes of a chart. Points outside of the ranges are drawn at the edge. A value. Nothing is checked: the ranges
/// must not be empty, and no coordinate of a chart may be NaN.
struct PHAROS_API Axes {
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::string x_name;
  double first = 0;  ///< the range of x; last is greater
  double last = 1;
  double low = 0;  ///< the range of y; high is greater
  double high = 1;

  /// Where a value lies in its range, from 0 to 1.
  double share_x(double x) const;
  double share_y(double y) const;
  /// Sets the range of y. A range of one value becomes one unit high.
  void set_heights(double from, double to);
};

/// The distance of a grid's lines: 1, 2 or 5 times a power of ten, so that a range this wide has at most `most` gaps.
PHAROS_API double round_step(double width, int most);

/// A chart as SVG. Later elements cover earlier ones. Its grid is at round numbers, up to which the range of y is
/// widened. A dot outside of the ranges is drawn at the edge as a small triangle that points outwards, and a note says
/// how many there are. A value.
class PHAROS_API SvgChart {
 public:
  /// Draws the title, the grid and its labels.
  SvgChart(Axes axes, std::string_view title);

  void dot(const Axes::Point& at, double radius, std::string_view colour, double opacity);
  /// Draws a red line through these points. Nothing if there is none.
  void line(const std::vector<Axes::Point>& points);
  /// Draws a green vertical line, and `name` beside it.
  void mark(double x, std::string_view name);
  /// Adds elements in SVG, in pixels of this chart, which has 814 by 440. They are not checked or escaped.
  void add(std::string_view elements) { svg_ += elements; }

  /// The document with everything that was drawn.
  std::string text() const;

 private:
  double left_of(double x) const;
  double top_of(double y) const;

  Axes axes_;
  std::string svg_;
  std::size_t beyond_ = 0;  // dots outside of the ranges
};

/// A chart in text, for a terminal. Later characters cover earlier ones. A value.
class PHAROS_API TextChart {
 public:
  /// `columns` and `rows` are those of the terminal; the chart takes at least 21 by 3.
  TextChart(Axes axes, std::size_t columns, std::size_t rows);

  void dot(const Axes::Point& at, char with);
  void vertical(double x, char with);
  void horizontal(double from, double to, double y, char with);

  /// The lines of the chart and its x axis. Below the axis there is room for `legend`, if that is not empty.
  std::string text(std::string_view legend) const;

 private:
  std::size_t column(double x) const;
  std::size_t row(double y) const;

  Axes axes_;
  std::vector<std::string> cells_;  // by row, from the top
};

/// Escapes text for use between tags of XML.
PHAROS_API std::string xml_text(std::string_view text);

}  // namespace pharos::ml
