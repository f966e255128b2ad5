#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// Numbers that follow from each other, as a picture: points are drawn pale, and what is between them, smoothed, as a
/// line.
struct Curve {
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::string title;
  std::string x_name = "step";
  std::vector<Point> points{};  ///< by x; those that are no finite numbers are left out
  std::vector<double> marks{};  ///< of x: something happened there
  std::string mark_name{};
};

PHAROS_API std::string to_svg(const Curve& curve);
/// For a terminal.
PHAROS_API std::string to_text_picture(const Curve& curve, std::size_t columns = 80, std::size_t rows = 12);

/// Text between tags of XML.
PHAROS_API std::string xml_text(std::string_view text);

}  // namespace pharos::ml
