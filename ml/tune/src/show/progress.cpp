#include "show/progress.hpp"

#include <algorithm>

#include "show/tables.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kBestShown = 5;

}  // namespace

Progress::Progress(std::string name) : name_{std::move(name)} {}

void Progress::show(const Sweep& sweep, double seconds, TimePoint now) {
  if (!display_.wants(now)) return;
  std::string text = summary(sweep, seconds) + '\n';
  if (display_.is_terminal()) {
    text += table_of(sweep.trials(), sweep.rules().metric, sweep.rules().goal, kBestShown, true);
  }
  display_.draw(text);
}

void Progress::end(const Sweep& sweep, double seconds) {
  display_.draw(summary(sweep, seconds) + '\n');
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

}  // namespace pharos::ml
