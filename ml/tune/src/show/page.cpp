#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/chart.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/html_page.hpp>
#include <pharos/ml/sweep_results.hpp>

#include "show/pictures.hpp"
#include "show/tables.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kTrialsShown = 20;
constexpr double kWideRange = 100;  // a parameter whose largest value is so many times its smallest is drawn in decades

std::optional<double> number_of(const TrialResult& trial, const std::string& name) {
  const Value* const value = trial.params.find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* const real = std::get_if<double>(value)) return *real;
  if (const auto* const whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

/// The parameters' names, in the order in which the trials have them.
std::vector<std::string> names_of(const std::vector<TrialResult>& trials) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const TrialResult& trial : trials) {
    for (const auto& [name, value] : trial.params.entries()) {
      if (known.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

/// The trials' values by one parameter; nullopt if fewer than two trials have different numbers there.
std::optional<std::string> chart_by(const SweepResults& results, const std::string& name) {
  std::vector<Axes::Point> points;
  for (const TrialResult& trial : results.trials()) {
    const auto x = number_of(trial, name);
    if (x && std::isfinite(*x) && trial.value && std::isfinite(*trial.value)) points.push_back({*x, *trial.value});
  }
  const auto by_x = [](const Axes::Point& a, const Axes::Point& b) { return a.x < b.x; };
  std::sort(points.begin(), points.end(), by_x);
  if (points.empty() || points.front().x == points.back().x) return std::nullopt;
  Axes axes{.x_name = name};
  if (points.front().x > 0 && points.back().x > kWideRange * points.front().x) {
    axes.x_name = "log10 of " + name;
    for (Axes::Point& each : points) each.x = std::log10(each.x);
  }
  axes.first = points.front().x;
  axes.last = points.back().x;
  std::vector<double> values;
  for (const Axes::Point& each : points) values.push_back(each.y);
  set_heights(axes, std::move(values), results.goal());
  SvgChart chart{axes, results.metric() + " by " + name};
  for (const Axes::Point& each : points) chart.dot(each, 3, "#1f77b4", 0.55);
  return chart.text();
}

std::vector<std::vector<std::string>> table_of_best(const SweepResults& results,
                                                    const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> lines{{"trial", results.metric(), "state", "step"}};
  lines.front().insert(lines.front().end(), names.begin(), names.end());
  for (const TrialResult* const trial : ranked(results.trials(), results.goal(), kTrialsShown)) {
    std::vector<std::string> line{std::to_string(trial->number), short_number(*trial->value),
                                  std::string{to_string(trial->state)}, std::to_string(trial->step)};
    for (const std::string& name : names) {
      const Value* const value = trial->params.find(name);
      line.push_back(value == nullptr ? "" : shown(*value));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// How many trials failed with each error, by the error's first line.
std::map<std::string, std::size_t> errors_of(const std::vector<TrialResult>& trials) {
  std::map<std::string, std::size_t> errors;
  for (const TrialResult& trial : trials) {
    if (trial.state == TrialResult::State::kFailed) ++errors[trial.error.substr(0, trial.error.find('\n'))];
  }
  return errors;
}

}  // namespace

std::string SweepResults::to_html() const {
  HtmlPage page{"Sweep: " + metric() + " of " + std::to_string(trials().size()) + " trials"};
  std::vector<std::pair<std::string, std::string>> facts{{"trials", summary()}, {"time", to_text(seconds())}};
  facts.emplace_back("goal", std::string{goal() == Goal::kMinimise ? "lowest " : "highest "} + metric());
  if (interrupted()) facts.emplace_back("end", "interrupted");
  if (!command().empty()) {
    std::string line;
    for (const std::string& each : command()) line += (line.empty() ? "" : " ") + each;
    facts.emplace_back("command", line);
  }
  page.facts(facts);
  page.chart(to_svg());
  const std::vector<std::string> names = names_of(trials());
  for (const std::string& name : names) {
    if (const auto chart = chart_by(*this, name)) page.chart(*chart);
  }
  page.heading("The best trials");
  page.table(table_of_best(*this, names));
  const auto errors = errors_of(trials());
  if (errors.empty()) return page.text();
  page.heading("What failed");
  std::vector<std::vector<std::string>> lines{{"trials", "error"}};
  for (const auto& [error, count] : errors) lines.push_back({std::to_string(count), error});
  page.table(lines);
  return page.text();
}

}  // namespace pharos::ml
