#include "train_log.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/ml/similar_name.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReportsMax = 10'000;
constexpr double kRateTime = 5;                          // seconds over which steps are counted
constexpr std::string_view kValidation = "validation_";  // how the metrics of fit()'s validations begin

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// "[#####-----] "
std::string bar(double share) {
  constexpr std::size_t kWidth = 20;
  const auto done = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kWidth);
  return '[' + std::string(done, '#') + std::string(kWidth - done, '-') + "] ";
}

bool is_better(double a, double b, bool is_better_lower) {
  return is_better_lower ? a < b : a > b;
}

/// The names of the report's metrics, each followed by a line feed.
std::string names_of(const TrainReport& report) {
  std::string names;
  for (const auto& [name, value] : report.metrics.entries()) names += name + '\n';
  return names;
}

}  // namespace

TrainLog::TrainLog(const TrainerOptions& options, TimePoint began)
    : name_{options.name},
      shows_{options.progress},
      began_{began},
      began_by_calendar_{seconds_of(std::chrono::system_clock::now().time_since_epoch())} {
  result_.metric = options.metric;
  result_.is_better_lower = options.is_better_lower;
}

Result<TrainLog> TrainLog::make(const TrainerOptions& options, TimePoint began) {
  TrainLog log{options, began};
  if (options.folder.empty()) return log;
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) {
    return Error::from_errno("making the training's folder " + options.folder.string(), error.value(),
                             "Give a folder that can be written to.");
  }
  if (options.log_reports) {
    PHAROS_TRY(log.lines_, ReportLog::go_on(options.folder, {"attempt", "epoch", "step"}));
    if (const auto last = log.lines_->last()) log.attempts_before_ = static_cast<std::uint32_t>(*last + 1);
  }
  if (options.tensorboard) log.board_.emplace(options.folder / "tensorboard", log.began_by_calendar_);
  return log;
}

void TrainLog::add(std::uint32_t attempt, const TrainReport& report) {
  for (; recovered_ < result_.interruptions.size(); ++recovered_) recovered(result_.interruptions[recovered_], report);
  result_.steps = report.step;
  ++steps_;
  add_best(report);
  if (lines_) {
    const std::uint32_t of_folder = attempts_before_ + attempt;
    lines_->add({of_folder, report.epoch, report.step}, report.seconds, report.metrics.entries());
  }
  if (board_) board_->add(began_by_calendar_ + report.seconds, report.step, report.metrics, result_.metric);
  Kind& kind = kinds_[names_of(report)];
  if (kind.seen++ % kind.every == 0) {
    result_.reports.push_back(report);
    ++kind.kept;
  }
  newest_ = report;
  thin();
}

void TrainLog::add_best(const TrainReport& report) {
  const double* const value = report.metrics.find(result_.metric);
  if (value == nullptr || !std::isfinite(*value)) return;
  const bool is_first = bests_.empty();
  if (!is_first && !is_better(*value, *bests_.back().metrics.find(result_.metric), result_.is_better_lower)) return;
  if (bests_.size() == kReportsMax) bests_.erase(bests_.begin() + 1, bests_.begin() + kReportsMax / 2);
  bests_.push_back(report);
}

/// If there are too many reports, drops every second one of the most frequent kind.
void TrainLog::thin() {
  if (result_.reports.size() <= kReportsMax) return;
  const auto most = std::ranges::max_element(kinds_, {}, [](const auto& each) { return each.second.kept; });
  Kind& kind = most->second;
  kind.every *= 2;
  bool goes = true;
  std::erase_if(result_.reports, [&](const TrainReport& each) {
    if (names_of(each) != most->first) return false;
    goes = !goes;
    return goes;
  });
  kind.kept = (kind.kept + 1) / 2;
}

void TrainLog::resumed(std::uint64_t step) {
  const auto is_later = [step](const TrainReport& each) { return each.step > step; };
  std::erase_if(result_.reports, is_later);
  std::erase_if(bests_, is_later);
  for (auto& [names, kind] : kinds_) kind.kept = 0;
  for (const TrainReport& each : result_.reports) ++kinds_[names_of(each)].kept;
  for (auto& [names, kind] : kinds_) kind.seen = kind.kept * kind.every;
  if (newest_ && is_later(*newest_)) {
    newest_ = result_.reports.empty() ? std::nullopt : std::optional{result_.reports.back()};
  }
  result_.steps = step;
  if (board_) board_->go_back(seconds_of(std::chrono::system_clock::now().time_since_epoch()), step + 1);
}

void TrainLog::interrupted(TrainResult::Interruption interruption) {
  interruption.step = result_.steps;
  result_.interruptions.push_back(std::move(interruption));
}

/// Completes an interruption, and shows it. `report` is the first one after it.
void TrainLog::recovered(TrainResult::Interruption& interruption, const TrainReport& report) {
  interruption.took = report.seconds - interruption.seconds;
  if (!shows_) return;
  const char* const what = interruption.is_replacement ? "another process took its place" : "all ranks began again";
  std::array<char, 64> times{};
  std::snprintf(times.data(), times.size(), "step %ju came %.2f s later", report.step, interruption.took);
  display_.say(name_ + ": " + interruption.why + ". After step " + std::to_string(interruption.step) + ' ' + what +
               ", and " + times.data());
  drawn_.clear();
}

Result<void> TrainLog::write(TimePoint now) {
  show(now);
  auto written = lines_ ? lines_->write() : Result<void>{};
  auto drawn = board_ ? board_->write() : Result<void>{};
  return written ? std::move(drawn) : std::move(written);
}

void TrainLog::show(TimePoint now) {
  const double seconds = seconds_of(now - began_);
  if (seconds - rate_from_seconds_ >= kRateTime) {
    rate_ = static_cast<double>(steps_ - rate_from_steps_) / (seconds - rate_from_seconds_);
    rate_from_seconds_ = seconds;
    rate_from_steps_ = steps_;
  }
  if (shows_ && display_.wants(now)) draw(status(seconds));
}

std::string TrainLog::status(double seconds) const {
  std::string text = name_ + ": ";
  if (expected_ != 0) text += bar(static_cast<double>(result_.steps) / static_cast<double>(expected_));
  text += "step " + std::to_string(result_.steps);
  if (expected_ != 0) text += " of " + std::to_string(expected_);
  const bool has_epochs = newest_ && (newest_->epoch != 0 || expected_ != 0);
  if (has_epochs) text += ", epoch " + std::to_string(newest_->epoch + 1);
  if (newest_) {
    for (const auto& [name, value] : newest_->metrics.entries()) {
      text += ", " + name + ' ' + short_number(value);
    }
  }
  const double rate = rate_ > 0 || seconds <= 0 ? rate_ : static_cast<double>(steps_) / seconds;
  text += "; " + short_number(rate) + " steps/s, " + to_text(seconds);
  if (rate > 0 && expected_ > result_.steps) {
    text += ", " + to_text(static_cast<double>(expected_ - result_.steps) / rate) + " left";
  }
  if (!result_.interruptions.empty()) text += ", interruptions " + std::to_string(result_.interruptions.size());
  return text + '\n';
}

void TrainLog::draw(std::string text) {
  if (text == drawn_) return;
  display_.draw(text);
  drawn_ = std::move(text);
}

bool TrainLog::look_for(const std::string& metric, When when) const {
  std::set<std::string> names;
  for (const auto& [of_kind, kind] : kinds_) {
    for (std::size_t begin = 0; begin < of_kind.size();) {
      const std::size_t end = of_kind.find('\n', begin);
      names.insert(of_kind.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (names.empty() || names.contains(metric)) return false;
  const std::optional<std::string> similar = similar_name(metric, {names.begin(), names.end()});
  if (when == When::kFirstReport && !similar) return false;
  const auto is_validation = [](std::string_view name) { return name.starts_with(kValidation); };
  const bool is_over = when == When::kTrainingIsOver;
  if (!is_over && is_validation(metric) && std::ranges::none_of(names, is_validation)) return false;
  const std::string meant = similar.value_or("none");
  std::string all;
  for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
  log(LogLevel::kWarn, "no report of a training had the metric that was asked for",
      {kv("training", std::string_view{name_}), kv("metric", std::string_view{metric}),
       kv("has", std::string_view{all}), kv("similar", std::string_view{meant})});
  return true;
}

TrainResult TrainLog::take(TrainResult::End end, TimePoint now) {
  result_.end = end;
  result_.seconds = seconds_of(now - began_);
  if (!bests_.empty()) result_.best = bests_.back();
  if (newest_ && (result_.reports.empty() || result_.reports.back().step < newest_->step)) {
    result_.reports.push_back(*newest_);
  }
  if (shows_) draw(status(result_.seconds));
  return std::move(result_);
}

}  // namespace pharos::ml
