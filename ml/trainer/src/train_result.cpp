#include <algorithm>
#include <utility>

#include <pharos/ml/curve.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/html_page.hpp>
#include <pharos/ml/train_result.hpp>

namespace pharos::ml {
namespace {

/// The curve of one metric, without a title.
Curve curve_of(const TrainResult& result, const std::string& metric) {
  Curve curve;
  for (const TrainReport& each : result.reports) {
    if (const double* const value = each.metrics.find(metric)) {
      curve.points.push_back({static_cast<double>(each.step), *value});
    }
  }
  for (const TrainResult::Interruption& each : result.interruptions)
    curve.marks.push_back(static_cast<double>(each.step + 1));
  curve.mark_name = result.interruptions.size() == 1 ? "here a rank died" : "here ranks died";
  return curve;
}

/// The curve of the metric that matters.
Curve curve_of(const TrainResult& result) {
  Curve curve = curve_of(result, result.metric);
  curve.title = result.metric + " of " + std::to_string(result.steps) + " steps in " + to_text(result.seconds);
  if (result.best) curve.title += ", best " + short_number(*result.best->metrics.find(result.metric));
  return curve;
}

/// The names of all metrics, that which matters first.
std::vector<std::string> metrics_of(const TrainResult& result) {
  std::vector<std::string> names{result.metric};
  for (const TrainReport& report : result.reports) {
    for (const auto& [name, value] : report.metrics.entries()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string text_of(TrainResult::End end) {
  switch (end) {
    case TrainResult::End::kReturned: return "finished";
    case TrainResult::End::kStopped: return "stopped early";
    case TrainResult::End::kInterrupted: return "interrupted";
  }
  return "";
}

}  // namespace

std::optional<double> TrainResult::last(std::string_view name) const {
  const double* const value = reports.empty() ? nullptr : reports.back().metrics.find(name);
  return value == nullptr ? std::nullopt : std::optional{*value};
}

std::optional<double> TrainResult::mean(std::string_view name) const {
  double sum = 0;
  std::size_t count = 0;
  for (const TrainReport& each : reports) {
    const double* const value = each.metrics.find(name);
    if (value == nullptr) continue;
    sum += *value;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional{sum / static_cast<double>(count)};
}

std::string TrainResult::to_svg() const {
  return ml::to_svg(curve_of(*this));
}

std::string TrainResult::to_html() const {
  HtmlPage page{"Training: " + metric + " after " + std::to_string(steps) + " steps"};
  std::vector<std::pair<std::string, std::string>> facts{
      {"end", text_of(end)}, {"steps", std::to_string(steps)}, {"time", to_text(seconds)}};
  if (best) {
    const double value = *best->metrics.find(metric);
    facts.emplace_back("best " + metric, short_number(value) + " in step " + std::to_string(best->step) + " (epoch " +
                                             std::to_string(best->epoch) + ")");
  }
  facts.emplace_back("interruptions", std::to_string(interruptions.size()));
  if (!why_unsaved.empty()) facts.emplace_back("last steps not saved", why_unsaved);
  page.facts(facts);
  for (const std::string& name : metrics_of(*this)) {
    Curve curve = curve_of(*this, name);
    curve.title = name;
    if (!curve.points.empty()) page.chart(ml::to_svg(curve));
  }
  if (interruptions.empty()) return page.text();
  page.heading("Interruptions");
  std::vector<std::vector<std::string>> lines{{"after step", "at", "lasted", "who goes on", "why"}};
  for (const Interruption& each : interruptions) {
    lines.push_back({std::to_string(each.step), to_text(each.seconds), each.took > 0 ? to_text(each.took) : "",
                     each.is_replacement ? "a replacement" : "all ranks began again", each.why});
  }
  page.table(lines);
  return page.text();
}

std::string TrainResult::to_text_picture(std::size_t columns, std::size_t rows) const {
  return ml::to_text_picture(curve_of(*this), columns, rows);
}

}  // namespace pharos::ml
