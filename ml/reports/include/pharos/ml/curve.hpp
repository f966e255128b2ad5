#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/chart.hpp>

namespace pharos::ml {

/// A series of values to draw. The values are drawn as pale points, and their moving mean as a line. A plain value,
/// from the results of a sweep or a training.
struct Curve {
  using Point = Axes::Point;
  std::string title;
  std::string x_name = "step";
  std::vector<Point> points{};  ///< Ordered by x. Points with infinite values or NaN are left out.
  std::vector<double> marks{};  ///< Vertical lines are drawn at these x. Infinite values and NaN are left out.
  std::string mark_name{};      ///< The meaning of the marks.
};

/// Draws the curve as a picture in SVG; without points, an empty chart. Any thread.
PHAROS_API std::string to_svg(const Curve& curve);
/// Draws the curve in text, for a terminal; without points, a line says so. Any thread.
PHAROS_API std::string to_text_picture(const Curve& curve, std::size_t columns = 80, std::size_t rows = 12);

}  // namespace pharos::ml
