#include "show/pictures.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/chart.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "show/tables.hpp"

namespace pharos::ml {
namespace {

struct Point : Axes::Point {  // x is the trial, y its value
  bool complete = true;
};

/// The contents of a chart: the values by trial, and the line of the best value so far.
struct Picture {
  std::vector<Point> points{};
  std::vector<Point> best{};
  Axes axes{.x_name = "trial"};
};

Picture picture_of(const SweepResults& results) {
  Picture picture;
  const double sign = results.goal() == Goal::kMaximise ? -1 : 1;
  const bool any_complete = results.count(TrialResult::State::kComplete) != 0;
  for (const TrialResult& trial : results.trials()) {
    if (!trial.value || !std::isfinite(*trial.value)) continue;
    const Point point{{static_cast<double>(trial.number), *trial.value}, trial.state == TrialResult::State::kComplete};
    picture.points.push_back(point);
    if (any_complete && !point.complete) continue;  // the value of an incomplete trial may not be comparable
    if (picture.best.empty() || sign * point.y < sign * picture.best.back().y) picture.best.push_back(point);
  }
  if (picture.points.empty()) return picture;
  std::vector<double> values;
  for (const Point& point : picture.points) values.push_back(point.y);
  set_heights(picture.axes, std::move(values), results.goal());
  picture.axes.last = std::max(picture.points.back().x, 1.0);
  return picture;
}

/// The trial up to which a value was the best.
double best_until(const Picture& picture, std::size_t best) {
  return best + 1 < picture.best.size() ? picture.best[best + 1].x : picture.axes.last;
}

}  // namespace

void set_heights(Axes& axes, std::vector<double> values, Goal goal) {
  std::sort(values.begin(), values.end());
  const std::size_t few = values.size() / 20;
  const bool is_better_lower = goal == Goal::kMinimise;
  axes.set_heights(values[is_better_lower ? 0 : few], values[values.size() - 1 - (is_better_lower ? few : 0)]);
}

std::string SweepResults::to_svg() const {
  const Picture picture = picture_of(*this);
  std::string title = metric() + " of " + std::to_string(picture.points.size()) + " trials";
  if (!picture.best.empty()) title += ", best " + short_number(best().value.value_or(0));
  SvgChart chart{picture.axes, title};
  for (const Point& each : picture.points) chart.dot(each, 3, each.complete ? "#1f77b4" : "#aaaaaa", 0.55);
  std::vector<Axes::Point> line;
  for (std::size_t i = 0; i < picture.best.size(); ++i) {
    line.push_back(picture.best[i]);
    line.push_back({best_until(picture, i), picture.best[i].y});
  }
  chart.line(line);
  chart.add(
      "<circle cx=\"520\" cy=\"20\" r=\"4\" fill=\"#1f77b4\"/><text x=\"530\" y=\"24\">complete</text>\n"
      "<circle cx=\"610\" cy=\"20\" r=\"4\" fill=\"#aaaaaa\"/><text x=\"620\" y=\"24\">stopped</text>\n"
      "<line x1=\"690\" x2=\"704\" y1=\"20\" y2=\"20\" stroke=\"#d62728\" stroke-width=\"2\"/>"
      "<text x=\"708\" y=\"24\">best so far</text>\n");
  return chart.text();
}

std::string SweepResults::to_text_picture(std::size_t columns, std::size_t rows) const {
  const Picture picture = picture_of(*this);
  if (picture.points.empty()) return "no trial has a result\n";
  TextChart chart{picture.axes, columns, rows};
  for (std::size_t i = 0; i < picture.best.size(); ++i) {
    chart.horizontal(picture.best[i].x, best_until(picture, i), picture.best[i].y, '_');
  }
  for (const Point& each : picture.points) chart.dot(each, each.complete ? 'o' : '.');
  return chart.text("o complete   . stopped   _ the best so far");
}

}  // namespace pharos::ml
