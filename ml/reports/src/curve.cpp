#include <algorithm>
#include <cmath>
#include <iterator>

#include <pharos/ml/chart.hpp>
#include <pharos/ml/curve.hpp>

namespace pharos::ml {
namespace {

using Point = Curve::Point;

constexpr std::size_t kPointsDrawn = 2000;

struct Frame {
  std::vector<Point> points{};
  std::vector<Point> line{};  // the moving mean of the points
  std::vector<double> marks{};
  Axes axes{};
};

Frame frame_of(const Curve& curve) {
  Frame frame{.axes = {.x_name = curve.x_name}};
  std::ranges::copy_if(curve.points, std::back_inserter(frame.points),
                       [](const Point& each) { return std::isfinite(each.y) && std::isfinite(each.x); });
  std::ranges::copy_if(curve.marks, std::back_inserter(frame.marks), [](double each) { return std::isfinite(each); });
  if (frame.points.empty()) return frame;
  // The frame leaves out a few values that are far off: they would press all others into one line.
  std::vector<double> values;
  for (const Point& each : frame.points) values.push_back(each.y);
  std::ranges::sort(values);
  const std::size_t few = values.size() / 50;
  const double low = values[few];
  const double high = values[values.size() - 1 - few];
  const double far = 3 * (high - low);
  frame.axes.set_heights(*std::ranges::lower_bound(values, low - far),
                         *std::prev(std::ranges::upper_bound(values, high + far)));
  frame.axes.first = frame.points.front().x;
  frame.axes.last = std::max(frame.points.back().x, frame.axes.first + 1);
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

}  // namespace

std::string to_svg(const Curve& curve) {
  const Frame frame = frame_of(curve);
  SvgChart chart{frame.axes, curve.title};
  chart.add("<text x=\"784\" y=\"24\" text-anchor=\"end\" fill=\"#555\">dots: each value; line: smoothed</text>\n");
  for (std::size_t i = 0; i < frame.marks.size(); ++i) chart.mark(frame.marks[i], i == 0 ? curve.mark_name : "");
  const std::size_t stride = std::max<std::size_t>(frame.points.size() / kPointsDrawn, 1);
  std::vector<Point> line;
  for (std::size_t i = 0; i < frame.points.size(); ++i) {
    if (i % stride != 0 && i + 1 != frame.points.size()) continue;
    chart.dot(frame.points[i], 2, "#1f77b4", 0.35);
    line.push_back(frame.line[i]);
  }
  chart.line(line);
  return chart.text();
}

std::string to_text_picture(const Curve& curve, std::size_t columns, std::size_t rows) {
  const Frame frame = frame_of(curve);
  if (frame.points.empty()) return "there is nothing to draw\n";
  TextChart chart{frame.axes, columns, rows};
  for (const double mark : frame.marks) chart.vertical(mark, '|');
  for (const Point& each : frame.points) chart.dot(each, '.');
  for (const Point& each : frame.line) chart.dot(each, 'o');
  return curve.title + '\n' + chart.text(frame.marks.empty() ? "" : "| " + curve.mark_name);
}

}  // namespace pharos::ml
