#include <pharos/ml/curve.hpp>
#include <pharos/ml/display.hpp>
#include <pharos/ml/train_result.hpp>

namespace pharos::ml {
namespace {

Curve curve_of(const TrainResult& result) {
  Curve curve;
  curve.title = result.metric + " of " + std::to_string(result.steps) + " steps in " + to_text(result.seconds);
  if (result.best) curve.title += ", best " + short_number(*result.best->metrics.find(result.metric));
  for (const TrainReport& each : result.reports) {
    if (const double* const value = each.metrics.find(result.metric)) {
      curve.points.push_back({static_cast<double>(each.step), *value});
    }
  }
  for (const TrainResult::Interruption& each : result.interruptions)
    curve.marks.push_back(static_cast<double>(each.step + 1));
  curve.mark_name = result.interruptions.size() == 1 ? "here a rank died" : "here ranks died";
  return curve;
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

std::string TrainResult::to_text_picture(std::size_t columns, std::size_t rows) const {
  return ml::to_text_picture(curve_of(*this), columns, rows);
}

}  // namespace pharos::ml
