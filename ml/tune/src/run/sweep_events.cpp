#include "run/sweep_events.hpp"

#include <cmath>
#include <string>

namespace pharos::ml {
namespace {

using State = TrialResult::State;

void end(TrialResult& trial, State state, double seconds) {
  trial.state = state;
  trial.ended_s = seconds;
}

void merge(TrialResult& trial, const Metrics& metrics, const std::string& metric) {
  for (const auto& [name, value] : metrics.entries()) trial.metrics.set(name.empty() ? metric : name, value);
  if (const auto value = value_in(metrics, metric)) trial.value = value;
}

void note(TrialResult&, const TrialBegan&, const std::string&) {}
void note(TrialResult& trial, const TrialResumed&, const std::string&) {
  trial.state = State::kRunning;
  ++trial.attempts;
}
void note(TrialResult& trial, const TrialAsked& event, const std::string&) {
  trial.params.set(event.name, event.value);
}
void note(TrialResult&, const TrialSaved&, const std::string&) {}
void note(TrialResult& trial, const TrialReported& event, const std::string& metric) {
  trial.step = event.step;
  merge(trial, event.metrics, metric);
  if (event.params) trial.params = *event.params;
  switch (event.led) {
    case Led::kGoOn:
    case Led::kNothing:
    case Led::kCopy: return;
    case Led::kPause: trial.state = State::kPaused; return;
    case Led::kStop:
    case Led::kTimeOver: return end(trial, State::kStopped, event.seconds);
    case Led::kEnd: return end(trial, State::kComplete, event.seconds);
  }
}
void note(TrialResult& trial, const TrialReturned& event, const std::string& metric) {
  merge(trial, event.metrics, metric);
  end(trial, State::kComplete, event.seconds);
}
void note(TrialResult& trial, const TrialFailed& event, const std::string&) {
  trial.error = event.why;
  if (event.again) {
    trial.state = State::kWaiting;
  } else {
    end(trial, State::kFailed, event.seconds);
  }
}
void note(TrialResult& trial, const TrialCut& event, const std::string&) {
  if (!trial.value) trial.error = "the sweep's time was over before the trial had a result";
  end(trial, trial.value ? State::kStopped : State::kFailed, event.seconds);
}

}  // namespace

std::uint64_t trial_of(const SweepEvent& event) {
  return std::visit([](const auto& each) { return each.trial; }, event);
}

double seconds_of(const SweepEvent& event) {
  return std::visit(
      [](const auto& each) {
        if constexpr (requires { each.seconds; }) return each.seconds;
        return 0.0;
      },
      event);
}

std::optional<double> value_in(const Metrics& metrics, const std::string& metric) {
  const double* value = metrics.find(metric);
  if (value == nullptr) value = metrics.find("");
  return value == nullptr ? std::nullopt : std::optional{*value};
}

Result<void> note(const SweepEvent& event, const std::string& metric, std::vector<TrialResult>& trials) {
  const std::uint64_t trial = trial_of(event);
  if (const auto* const began = std::get_if<TrialBegan>(&event)) {
    if (trial == trials.size()) {
      trials.push_back({.number = trial, .params = began->params, .began_s = began->seconds});
      return {};
    }
  }
  if (trial >= trials.size() || std::holds_alternative<TrialBegan>(event)) {
    return Error{ErrorCode::kCorrupt, "the journal has an event of trial " + std::to_string(trial) + " out of order"};
  }
  std::visit([&](const auto& each) { note(trials[trial], each, metric); }, event);
  return {};
}

}  // namespace pharos::ml
