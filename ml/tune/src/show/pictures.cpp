#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <pharos/ml/curve.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "show/tables.hpp"

namespace pharos::ml {
namespace {

struct Point {
  double x;  // the trial
  double y;  // its value
  bool complete;
};

/// The contents of a chart: the values by trial, and the line of the best value so far.
struct Picture {
  std::vector<Point> points;
  std::vector<Point> best;
  double low = 0;
  double high = 1;
  double last = 1;
};

Picture picture_of(const SweepResults& results) {
  Picture picture;
  const double sign = results.goal() == Goal::kMaximise ? -1 : 1;
  const bool any_complete = results.count(TrialResult::State::kComplete) != 0;
  for (const TrialResult& trial : results.trials()) {
    if (!trial.value || !std::isfinite(*trial.value)) continue;
    const Point point{static_cast<double>(trial.number), *trial.value, trial.state == TrialResult::State::kComplete};
    picture.points.push_back(point);
    if (any_complete && !point.complete) continue;  // the value of an incomplete trial may not be comparable
    if (picture.best.empty() || sign * point.y < sign * picture.best.back().y) picture.best.push_back(point);
  }
  if (picture.points.empty()) return picture;
  // The worst twentieth is left out of the range: a few values that are far off would press all others into one line.
  std::vector<double> values;
  for (const Point& point : picture.points) values.push_back(sign * point.y);
  std::sort(values.begin(), values.end());
  const double best = sign * values.front();
  const double worst = sign * values[values.size() - 1 - values.size() / 20];
  picture.low = std::min(best, worst);
  picture.high = std::max(best, worst);
  if (picture.high - picture.low < 1e-300) {
    picture.low -= 0.5;
    picture.high += 0.5;
  }
  picture.last = std::max(picture.points.back().x, 1.0);
  return picture;
}

template <class... Args>
std::string format(const char* form, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), form, args...);
  return text.data();
}

}  // namespace

std::string SweepResults::to_svg() const {
  constexpr double kLeft = 84;
  constexpr double kTop = 40;
  constexpr double kWidth = 700;
  constexpr double kHeight = 340;
  const Picture picture = picture_of(*this);
  const auto x = [&](double trial) { return kLeft + kWidth * trial / picture.last; };
  const auto y = [&](double value) {
    const double share = (std::clamp(value, picture.low, picture.high) - picture.low) / (picture.high - picture.low);
    return kTop + kHeight * (1 - share);
  };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 814 440\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"814\" height=\"440\" fill=\"white\"/>\n";
  svg += format("<text x=\"%g\" y=\"24\" font-size=\"16\">", kLeft) + xml_text(metric()) + " of " +
         std::to_string(picture.points.size()) + " trials";
  if (!picture.best.empty()) svg += ", best " + short_number(best().value.value_or(0));
  svg += "</text>\n";
  constexpr int kLines = 5;
  for (int i = 0; i <= kLines; ++i) {
    const double value = picture.low + (picture.high - picture.low) * i / kLines;
    svg += format("<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, kLeft + kWidth,
                  y(value), y(value));
    svg += format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", kLeft - 8, y(value) + 4,
                  short_number(value).c_str());
    const double trial = picture.last * i / kLines;
    svg += format("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">%.0f</text>\n", x(trial),
                  kTop + kHeight + 20, trial);
  }
  svg += format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">trial</text>\n", kLeft + kWidth / 2,
                kTop + kHeight + 42);
  for (const Point& point : picture.points) {
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" fill-opacity=\"0.55\"/>\n", x(point.x),
                  y(point.y), point.complete ? "#1f77b4" : "#aaaaaa");
  }
  std::string line;
  for (std::size_t i = 0; i < picture.best.size(); ++i) {
    const double next = i + 1 < picture.best.size() ? picture.best[i + 1].x : picture.last;
    line += format("%.1f,%.1f %.1f,%.1f ", x(picture.best[i].x), y(picture.best[i].y), x(next), y(picture.best[i].y));
  }
  if (!line.empty()) svg += "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#d62728\" stroke-width=\"2\"/>\n";
  svg += format("<circle cx=\"%g\" cy=\"20\" r=\"4\" fill=\"#1f77b4\"/><text x=\"%g\" y=\"24\">complete</text>\n",
                520.0, 530.0);
  svg += format("<circle cx=\"%g\" cy=\"20\" r=\"4\" fill=\"#aaaaaa\"/><text x=\"%g\" y=\"24\">stopped</text>\n", 610.0,
                620.0);
  svg += format(
      "<line x1=\"%g\" x2=\"%g\" y1=\"20\" y2=\"20\" stroke=\"#d62728\" stroke-width=\"2\"/>"
      "<text x=\"%g\" y=\"24\">best so far</text>\n",
      690.0, 704.0, 708.0);
  return svg + "</svg>\n";
}

std::string SweepResults::to_text_picture(std::size_t columns, std::size_t rows) const {
  const Picture picture = picture_of(*this);
  if (picture.points.empty()) return "no trial has a result\n";
  constexpr std::size_t kLabel = 11;
  const std::size_t width = std::max<std::size_t>(columns, kLabel + 10) - kLabel - 1;
  const std::size_t height = std::max<std::size_t>(rows, 3);
  std::vector<std::string> cells(height, std::string(width, ' '));
  const auto column = [&](double trial) {
    return std::min(static_cast<std::size_t>(trial / picture.last * static_cast<double>(width - 1)), width - 1);
  };
  const auto row = [&](double value) {
    const double share = (std::clamp(value, picture.low, picture.high) - picture.low) / (picture.high - picture.low);
    return height - 1 -
           std::min(static_cast<std::size_t>(std::lround(share * static_cast<double>(height - 1))), height - 1);
  };
  for (std::size_t i = 0; i < picture.best.size(); ++i) {
    const double next = i + 1 < picture.best.size() ? picture.best[i + 1].x : picture.last;
    for (std::size_t c = column(picture.best[i].x); c <= column(next); ++c) cells[row(picture.best[i].y)][c] = '_';
  }
  for (const Point& point : picture.points) cells[row(point.y)][column(point.x)] = point.complete ? 'o' : '.';
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    std::string label;
    if (i == 0) label = short_number(picture.high);
    if (i == height - 1) label = short_number(picture.low);
    text += std::string(kLabel - std::min(label.size(), kLabel), ' ') + label + '|' + cells[i];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string last = "trial " + std::to_string(static_cast<std::uint64_t>(picture.last));
  text += std::string(kLabel, ' ') + '+' + std::string(width, '-') + '\n';
  text += std::string(kLabel + 1, ' ') + "trial 0" + std::string(width - std::min(width, 7 + last.size()), ' ') + last +
          '\n';
  return text + std::string(kLabel + 1, ' ') + "o complete   . stopped   _ the best so far\n";
}

}  // namespace pharos::ml
