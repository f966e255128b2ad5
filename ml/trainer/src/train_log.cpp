#include "train_log.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReportsMax = 10'000;
constexpr double kRateTime = 5;  // seconds over which steps are counted

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
  }
  if (options.tensorboard) log.board_.emplace(options.folder / "tensorboard", log.began_by_calendar_);
  return log;
}

void TrainLog::add(std::uint32_t attempt, const TrainReport& report) {
  result_.steps = report.step;
  ++steps_;
  if (const double* const value = report.metrics.find(result_.metric); value != nullptr && std::isfinite(*value)) {
    const double* const best = result_.best ? result_.best->metrics.find(result_.metric) : nullptr;
    if (best == nullptr || is_better(*value, *best, result_.is_better_lower)) result_.best = report;
  }
  if (lines_) lines_->add({attempt, report.epoch, report.step}, report.seconds, report.metrics.entries());
  if (board_) board_->add(began_by_calendar_ + report.seconds, report.step, report.metrics, result_.metric);
  if (report.step % every_ == 0 || every_ == 1) result_.reports.push_back(report);
  newest_ = report;
  thin();
}

void TrainLog::thin() {
  if (result_.reports.size() <= kReportsMax) return;
  every_ *= 2;
  std::erase_if(result_.reports, [&](const TrainReport& each) { return each.step % every_ != 0; });
}

void TrainLog::resumed(std::uint64_t step) {
  std::erase_if(result_.reports, [step](const TrainReport& each) { return each.step > step; });
  if (result_.best && result_.best->step > step) result_.best.reset();
  for (const TrainReport& each : result_.reports) {
    const double* const value = each.metrics.find(result_.metric);
    const double* const best = result_.best ? result_.best->metrics.find(result_.metric) : nullptr;
    if (value == nullptr || !std::isfinite(*value)) continue;
    if (best == nullptr || is_better(*value, *best, result_.is_better_lower)) result_.best = each;
  }
  result_.steps = step;
}

void TrainLog::restarted(TrainResult::Restart restart) {
  result_.restarts.push_back(std::move(restart));
}

Result<void> TrainLog::write(TimePoint now) {
  if (lines_) PHAROS_TRY_VOID(lines_->write());
  if (board_) PHAROS_TRY_VOID(board_->write());
  const double seconds = seconds_of(now - began_);
  if (seconds - rate_from_seconds_ >= kRateTime) {
    rate_ = static_cast<double>(steps_ - rate_from_steps_) / (seconds - rate_from_seconds_);
    rate_from_seconds_ = seconds;
    rate_from_steps_ = steps_;
  }
  if (shows_ && display_.wants(now)) draw(status(seconds));
  return {};
}

std::string TrainLog::status(double seconds) const {
  std::string text = name_ + ": ";
  if (expected_ != 0) text += bar(static_cast<double>(result_.steps) / static_cast<double>(expected_));
  text += "step " + std::to_string(result_.steps);
  if (expected_ != 0) text += " of " + std::to_string(expected_);
  if (newest_ && newest_->epoch != 0) text += ", epoch " + std::to_string(newest_->epoch);
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
  if (!result_.restarts.empty()) text += ", restarts " + std::to_string(result_.restarts.size());
  return text + '\n';
}

void TrainLog::draw(std::string text) {
  if (text == drawn_) return;
  display_.draw(text);
  drawn_ = std::move(text);
}

TrainResult TrainLog::take(TrainResult::End end, TimePoint now) {
  result_.end = end;
  result_.seconds = seconds_of(now - began_);
  if (newest_ && (result_.reports.empty() || result_.reports.back().step < newest_->step)) {
    result_.reports.push_back(*newest_);
  }
  if (shows_) draw(status(result_.seconds));
  return std::move(result_);
}

}  // namespace pharos::ml
