#include "fit/asked_metrics.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/similar_name.hpp>
#include <pharos/ml/train_context.hpp>

#include "fit/validation.hpp"

namespace pharos::ml {
namespace {

constexpr std::string_view kOfValidation = "validation_";
constexpr std::string_view kMayMeanValidation = "val";  // "val_loss" is what other libraries call it

std::string list_of_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "\"" : ", \"") + each + '"';
  return list;
}

}  // namespace

AskedMetrics::AskedMetrics(const TrainContext& context, const FitOptions& options, bool callbacks_may_log)
    : context_{context}, options_{options}, callbacks_may_log_{callbacks_may_log} {}

void AskedMetrics::look_at(Validation& validation) {
  if (std::exchange(has_seen_validation_, true) || context_.is_replacement()) return;
  const auto may_be_its = [](const std::string& each) { return each.starts_with(kMayMeanValidation); };
  if (std::ranges::none_of(context_.asked_for(), may_be_its)) return;
  const bool validates = options_.validate_every != 0 || options_.validate_every_steps != 0;
  std::string where = "no validation reports it";
  if (!validates) where = "nothing is validated: FitOptions::validate_every is 0";
  if (!validation.has_data()) where = "the learner has no validation data";
  if (validation.has_data() && validates) of_validation_ = validation.names();
  for (const std::string& each : context_.asked_for()) {
    const bool is_its = each.starts_with(kOfValidation);
    if (!is_its || std::ranges::find(of_validation_, each) != of_validation_.end()) continue;
    miss(each, where, of_validation_);
  }
}

void AskedMetrics::look_at(const Metrics& of_step) {
  if (std::exchange(has_seen_step_, true) || callbacks_may_log_) return;
  std::vector<std::string> names = of_validation_;
  for (const auto& [name, value] : of_step.entries()) names.push_back(name);
  for (const std::string& each : context_.asked_for()) {
    if (each.starts_with(kOfValidation) || std::ranges::find(names, each) != names.end()) continue;
    if (similar_name(each, names)) miss(each, "no step reports it", names);
  }
}

void AskedMetrics::miss(const std::string& metric, const std::string& where,
                        const std::vector<std::string>& has) const {
  const std::optional<std::string> similar = similar_name(metric, has);
  std::string what = "the options of the trainer look at the metric \"" + metric + "\", and " + where;
  if (!has.empty()) what += "; there are " + list_of_names(has);
  std::string remedy = "Correct TrainerOptions::metric or early_stopping(), or let the learner report the metric.";
  if (similar) remedy = "Did you mean \"" + *similar + "\"? " + remedy;
  if (!callbacks_may_log_) throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
  if (context_.rank() != 0) return;
  log(LogLevel::kWarn, "only a callback of the learner can report a metric that the options look at",
      {kv("why", std::string_view{what}), kv("remedy", std::string_view{remedy})});
}

}  // namespace pharos::ml
