#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include <pharos/ml/chart.hpp>
#include <pharos/ml/display.hpp>

namespace pharos::ml {
namespace {

// The area of the curve, in pixels of the SVG.
constexpr double kLeft = 84;
constexpr double kTop = 40;
constexpr double kWidth = 700;
constexpr double kHeight = 340;

constexpr std::size_t kLabel = 11;  // columns of the text for the labels of y

template <class... Args>
std::string format(const char* form, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), form, args...);
  return text.data();
}

/// A number at an axis: whole numbers in full.
std::string label(double value) {
  return value == std::round(value) && std::abs(value) < 1e9 ? format("%.0f", value == 0 ? 0.0 : value)
                                                             : short_number(value);
}

}  // namespace

// ---- Axes

double Axes::share_x(double x) const {
  return std::clamp((x - first) / (last - first), 0.0, 1.0);
}
double Axes::share_y(double y) const {
  return (std::clamp(y, low, high) - low) / (high - low);
}

void Axes::set_heights(double from, double to) {
  const bool is_one_value = to - from < 1e-300;
  low = is_one_value ? from - 0.5 : from;
  high = is_one_value ? to + 0.5 : to;
}

// ---- SVG

double round_step(double width, int most) {
  if (!(width > 0) || !std::isfinite(width)) return 1;
  const double power = std::pow(10, std::floor(std::log10(width / most)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (width / (times * power) <= most * (1 + 1e-9)) return times * power;
  }
  return 10 * power;
}

SvgChart::SvgChart(Axes axes, std::string_view title) : axes_{std::move(axes)} {
  constexpr int kGaps = 6;
  const double step_y = round_step(axes_.high - axes_.low, kGaps);
  axes_.low = std::floor(axes_.low / step_y + 1e-9) * step_y;
  axes_.high = std::ceil(axes_.high / step_y - 1e-9) * step_y;
  const double step_x = round_step(axes_.last - axes_.first, kGaps);
  svg_ =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 814 440\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"814\" height=\"440\" fill=\"white\"/>\n";
  svg_ += format("<text x=\"%g\" y=\"24\" font-size=\"16\">", kLeft) + xml_text(title) + "</text>\n";
  for (double line = std::round(axes_.low / step_y); line * step_y <= axes_.high + step_y / 2; ++line) {
    const double y = line * step_y;
    svg_ += format("<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, kLeft + kWidth,
                   top_of(y), top_of(y));
    svg_ += format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", kLeft - 8, top_of(y) + 4,
                   short_number(y).c_str());
  }
  for (double line = std::ceil(axes_.first / step_x - 1e-9); line * step_x <= axes_.last + step_x * 1e-9; ++line) {
    const double x = line * step_x;
    svg_ += format("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">%s</text>\n", left_of(x),
                   kTop + kHeight + 20, label(x).c_str());
  }
  svg_ +=
      format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\" fill=\"#555\">", kLeft + kWidth / 2, kTop + kHeight + 42) +
      xml_text(axes_.x_name) + "</text>\n";
}

double SvgChart::left_of(double x) const {
  return kLeft + kWidth * axes_.share_x(x);
}
double SvgChart::top_of(double y) const {
  return kTop + kHeight * (1 - axes_.share_y(y));
}

void SvgChart::dot(const Axes::Point& at, double radius, std::string_view colour, double opacity) {
  const bool above = at.y > axes_.high;
  const bool below = at.y < axes_.low;
  if (above || below || at.x < axes_.first || at.x > axes_.last) {
    ++beyond_;
    const double size = 2 * radius;
    const double tip = below ? size : -size;
    svg_ += format("<path d=\"M%.1f %.1fl%g %gh%gz\" fill=\"%.*s\"/>\n", left_of(at.x), top_of(at.y) + tip, -radius,
                   -tip, 2 * radius, static_cast<int>(colour.size()), colour.data());
    return;
  }
  svg_ += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%.*s\" fill-opacity=\"%g\"/>\n", left_of(at.x),
                 top_of(at.y), radius, static_cast<int>(colour.size()), colour.data(), opacity);
}

void SvgChart::line(const std::vector<Axes::Point>& points) {
  if (points.empty()) return;
  svg_ += "<polyline points=\"";
  for (const Axes::Point& each : points) svg_ += format("%.1f,%.1f ", left_of(each.x), top_of(each.y));
  svg_ += "\" fill=\"none\" stroke=\"#d62728\" stroke-width=\"2\"/>\n";
}

void SvgChart::mark(double x, std::string_view name) {
  svg_ += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\" stroke=\"#2ca02c\" stroke-dasharray=\"4 3\"/>\n",
                 left_of(x), left_of(x), kTop, kTop + kHeight);
  if (name.empty()) return;
  svg_ +=
      format("<text x=\"%.1f\" y=\"%g\" fill=\"#2ca02c\">", left_of(x) + 6, kTop + 16) + xml_text(name) + "</text>\n";
}

std::string SvgChart::text() const {
  if (beyond_ == 0) return svg_ + "</svg>\n";
  return svg_ +
         format("<text x=\"%g\" y=\"%g\" text-anchor=\"end\" fill=\"#555\">triangles: %zu beyond the edge</text>\n",
                kLeft + kWidth, kTop + kHeight + 42, beyond_) +
         "</svg>\n";
}

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

// ---- Text

TextChart::TextChart(Axes axes, std::size_t columns, std::size_t rows)
    : axes_{std::move(axes)},
      cells_(std::max<std::size_t>(rows, 3),
             std::string(std::max<std::size_t>(columns, kLabel + 10) - kLabel - 1, ' ')) {}

std::size_t TextChart::column(double x) const {
  return static_cast<std::size_t>(std::lround(axes_.share_x(x) * static_cast<double>(cells_.front().size() - 1)));
}
std::size_t TextChart::row(double y) const {
  const std::size_t last = cells_.size() - 1;
  return last - static_cast<std::size_t>(std::lround(axes_.share_y(y) * static_cast<double>(last)));
}

void TextChart::dot(const Axes::Point& at, char with) {
  cells_[row(at.y)][column(at.x)] = with;
}
void TextChart::vertical(double x, char with) {
  for (std::string& each : cells_) each[column(x)] = with;
}
void TextChart::horizontal(double from, double to, double y, char with) {
  for (std::size_t at = column(from); at <= column(to); ++at) cells_[row(y)][at] = with;
}

std::string TextChart::text(std::string_view legend) const {
  const std::size_t width = cells_.front().size();
  std::string text;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    std::string label;
    if (i == 0) label = short_number(axes_.high);
    if (i == cells_.size() - 1) label = short_number(axes_.low);
    text += std::string(kLabel - std::min(label.size(), kLabel), ' ') + label + '|' + cells_[i];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  const std::string margin(kLabel + 1, ' ');
  const std::string first = axes_.x_name + ' ' + short_number(axes_.first);
  const std::string last = short_number(axes_.last);
  text += std::string(kLabel, ' ') + '+' + std::string(width, '-') + '\n';
  text += margin + first + std::string(width - std::min(width, first.size() + last.size()), ' ') + last + '\n';
  if (!legend.empty()) text += margin + std::string{legend} + '\n';
  return text;
}

}  // namespace pharos::ml
