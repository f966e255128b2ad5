#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "tables.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDrawTime = 500ms;
constexpr Duration kLineTime = 10s;
constexpr std::size_t kBestShown = 5;

}  // namespace

std::string to_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

Progress::Progress(std::string name) : name_{std::move(name)}, terminal_{::isatty(STDERR_FILENO) == 1} {}

void Progress::show(const Sweep& sweep, double seconds, TimePoint now) {
  const bool first = next_ == TimePoint{};
  next_ = now + (terminal_ ? kDrawTime : kLineTime);
  if (first) return;  // nothing has happened yet
  std::string text = summary(sweep, seconds) + '\n';
  if (terminal_) text += table_of(sweep.trials(), sweep.rules().metric, sweep.rules().goal, kBestShown, true);
  draw(text);
}

void Progress::end(const Sweep& sweep, double seconds) {
  draw(summary(sweep, seconds) + '\n');
}

std::string Progress::summary(const Sweep& sweep, double seconds) const {
  const SweepRules& rules = sweep.rules();
  const auto count = [&](TrialResult::State state) {
    return std::count_if(sweep.trials().begin(), sweep.trials().end(), [&](const auto& t) { return t.state == state; });
  };
  std::string text = name_ + ": " + std::to_string(sweep.over());
  const bool endless = rules.trials == SweepRules::kEndless;
  if (!endless) text += " of " + std::to_string(rules.trials);
  text += " trials in " + to_text(seconds) + ", " + std::to_string(sweep.running()) + " running";
  if (const auto paused = count(TrialResult::State::kPaused)) text += ", " + std::to_string(paused) + " paused";
  if (const auto stopped = count(TrialResult::State::kStopped)) text += ", " + std::to_string(stopped) + " stopped";
  if (const auto failed = count(TrialResult::State::kFailed)) text += ", " + std::to_string(failed) + " failed";
  if (const TrialResult* const best = best_of(sweep.trials(), rules.goal)) {
    text +=
        "; best " + rules.metric + ' ' + short_number(*best->value) + " (trial " + std::to_string(best->number) + ')';
  }
  const std::uint64_t left = endless || rules.trials <= sweep.over() ? 0 : rules.trials - sweep.over();
  double to_go =
      endless || sweep.over() == 0 ? -1 : seconds / static_cast<double>(sweep.over()) * static_cast<double>(left);
  if (rules.seconds_max > 0) {
    const double until = std::max(rules.seconds_max - seconds, 0.0);
    to_go = to_go < 0 ? until : std::min(to_go, until);
  }
  if (to_go > 0 && (left != 0 || endless)) text += "; about " + to_text(to_go) + " left";
  return text;
}

void Progress::draw(const std::string& text) {
  std::string all;
  if (terminal_ && lines_ != 0) all = "\x1b[" + std::to_string(lines_) + "A\x1b[J";
  all += text;
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  std::fwrite(all.data(), 1, all.size(), stderr);
}

}  // namespace pharos::ml
