#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>

#include <pharos/ml/curve.hpp>
#include <pharos/ml/display.hpp>

namespace pharos::ml {
namespace {

using Point = Curve::Point;

constexpr std::size_t kPointsDrawn = 2000;

struct Frame {
  std::vector<Point> points{};
  std::vector<Point> line{};  // the moving mean of the points
  double low = 0;
  double high = 1;
  double first = 0;
  double last = 1;

  double share_x(double x) const { return std::clamp((x - first) / (last - first), 0.0, 1.0); }
  double share_y(double y) const { return (std::clamp(y, low, high) - low) / (high - low); }
};

Frame frame_of(const Curve& curve) {
  Frame frame;
  std::ranges::copy_if(curve.points, std::back_inserter(frame.points),
                       [](const Point& each) { return std::isfinite(each.y) && std::isfinite(each.x); });
  if (frame.points.empty()) return frame;
  // The frame leaves out a few values that are far off: they would press all others into one line.
  std::vector<double> values;
  for (const Point& each : frame.points) values.push_back(each.y);
  std::ranges::sort(values);
  const std::size_t few = values.size() / 50;
  frame.low = values[few];
  frame.high = values[values.size() - 1 - few];
  const double far = 3 * (frame.high - frame.low);
  frame.low = *std::ranges::lower_bound(values, frame.low - far);
  frame.high = *std::prev(std::ranges::upper_bound(values, frame.high + far));
  if (frame.high - frame.low < 1e-300) {
    frame.low -= 0.5;
    frame.high += 0.5;
  }
  frame.first = frame.points.front().x;
  frame.last = std::max(frame.points.back().x, frame.first + 1);
  // A moving mean over about a fiftieth of the picture. At the beginning it is the mean of the points so far.
  const double keep = std::exp(-50.0 / static_cast<double>(std::max<std::size_t>(frame.points.size(), 50)));
  double mean = 0;
  double weight = 0;
  for (const Point& each : frame.points) {
    mean = keep * mean + (1 - keep) * each.y;
    weight = keep * weight + (1 - keep);
    frame.line.push_back({each.x, mean / weight});
  }
  return frame;
}

template <class... Args>
std::string format(const char* form, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), form, args...);
  return text.data();
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string safe;
  for (const char each : text) {
    switch (each) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += each;
    }
  }
  return safe;
}

std::string to_svg(const Curve& curve) {
  constexpr double kLeft = 84;
  constexpr double kTop = 40;
  constexpr double kWidth = 700;
  constexpr double kHeight = 340;
  constexpr int kLines = 5;
  const Frame frame = frame_of(curve);
  const auto x = [&](double at) { return kLeft + kWidth * frame.share_x(at); };
  const auto y = [&](double at) { return kTop + kHeight * (1 - frame.share_y(at)); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 814 440\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"814\" height=\"440\" fill=\"white\"/>\n";
  svg += format("<text x=\"%g\" y=\"24\" font-size=\"16\">", kLeft) + xml_text(curve.title) + "</text>\n";
  for (int i = 0; i <= kLines; ++i) {
    const double value = frame.low + (frame.high - frame.low) * i / kLines;
    const double at = frame.first + (frame.last - frame.first) * i / kLines;
    svg += format("<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, kLeft + kWidth,
                  y(value), y(value));
    svg += format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", kLeft - 8, y(value) + 4,
                  short_number(value).c_str());
    svg += format("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">%.0f</text>\n", x(at),
                  kTop + kHeight + 20, at);
  }
  svg +=
      format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">", kLeft + kWidth / 2, kTop + kHeight + 42) +
      xml_text(curve.x_name) + "</text>\n";
  svg += "<text x=\"784\" y=\"24\" text-anchor=\"end\" fill=\"#555\">dots: each value; line: smoothed</text>\n";
  for (const double mark : curve.marks) {
    svg += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\" stroke=\"#2ca02c\" stroke-dasharray=\"4 3\"/>\n",
                  x(mark), x(mark), kTop, kTop + kHeight);
  }
  if (!curve.marks.empty()) {
    svg += format("<text x=\"%.1f\" y=\"%g\" fill=\"#2ca02c\">", x(curve.marks.front()) + 6, kTop + 16) +
           xml_text(curve.mark_name) + "</text>\n";
  }
  const std::size_t stride = std::max<std::size_t>(frame.points.size() / kPointsDrawn, 1);
  std::string line;
  for (std::size_t i = 0; i < frame.points.size(); ++i) {
    if (i % stride != 0 && i + 1 != frame.points.size()) continue;
    const Point& each = frame.points[i];
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"#1f77b4\" fill-opacity=\"0.35\"/>\n", x(each.x),
                  y(each.y));
    line += format("%.1f,%.1f ", x(frame.line[i].x), y(frame.line[i].y));
  }
  if (!line.empty()) svg += "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#d62728\" stroke-width=\"2\"/>\n";
  return svg + "</svg>\n";
}

std::string to_text_picture(const Curve& curve, std::size_t columns, std::size_t rows) {
  const Frame frame = frame_of(curve);
  if (frame.points.empty()) return "there is nothing to draw\n";
  constexpr std::size_t kLabel = 11;
  const std::size_t width = std::max<std::size_t>(columns, kLabel + 10) - kLabel - 1;
  const std::size_t height = std::max<std::size_t>(rows, 3);
  std::vector<std::string> cells(height, std::string(width, ' '));
  const auto place = [](double share, std::size_t cells_there) {
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(cells_there - 1)));
  };
  const auto draw = [&](const Point& at, char with) {
    cells[height - 1 - place(frame.share_y(at.y), height)][place(frame.share_x(at.x), width)] = with;
  };
  for (const double mark : curve.marks) {
    for (std::string& row : cells) row[place(frame.share_x(mark), width)] = '|';
  }
  for (const Point& each : frame.points) draw(each, '.');
  for (const Point& each : frame.line) draw(each, 'o');
  std::string text = curve.title + '\n';
  for (std::size_t i = 0; i < height; ++i) {
    std::string label;
    if (i == 0) label = short_number(frame.high);
    if (i == height - 1) label = short_number(frame.low);
    text += std::string(kLabel - std::min(label.size(), kLabel), ' ') + label + '|' + cells[i];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string first = curve.x_name + ' ' + short_number(frame.first);
  const std::string last = short_number(frame.last);
  text += std::string(kLabel, ' ') + '+' + std::string(width, '-') + '\n';
  text += std::string(kLabel + 1, ' ') + first + std::string(width - std::min(width, first.size() + last.size()), ' ') +
          last + '\n';
  if (!curve.marks.empty()) text += std::string(kLabel + 1, ' ') + "| " + curve.mark_name + '\n';
  return text;
}

}  // namespace pharos::ml
