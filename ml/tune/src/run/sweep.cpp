#include "run/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>

namespace pharos::ml {
namespace {

constexpr auto kNever = std::numeric_limits<std::uint64_t>::max();

Error of_another_sweep(const std::string& what) {
  return {ErrorCode::kFailedPrecondition, "the journal belongs to another sweep: " + what,
          "Use the space, searcher, scheduler and numbers of trials that the sweep was begun with, or give another "
          "folder."};
}

}  // namespace

Sweep::Sweep(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler, Record record)
    : rules_{std::move(rules)},
      space_{space},
      proposals_{rules_, space, searcher},
      scheduler_{scheduler},
      record_{std::move(record)} {}

// ---- What has happened before

Result<void> Sweep::replay(const SweepEvent& event) {
  PHAROS_TRY_VOID(check(event));
  if (const auto* const resumed = std::get_if<TrialResumed>(&event)) {
    using From = TrialResumed::From;
    std::optional<std::uint64_t> chosen = resumed->trial;
    if (resumed->from == From::kPause) chosen = scheduler_.next();
    if (resumed->from == From::kLastPause) chosen = scheduler_.last_chance();
    if (chosen != resumed->trial) {
      return of_another_sweep("trial " + std::to_string(resumed->trial) +
                              " is resumed in the journal, but the scheduler would resume another trial or none");
    }
  }
  SweepEvent again = event;
  replays_ = true;
  std::visit([this](auto& each) { apply(each); }, again);
  replays_ = false;
  const auto* const reported = std::get_if<TrialReported>(&event);
  if (reported != nullptr && reported->led != std::get<TrialReported>(again).led) {
    return of_another_sweep("the journal and the scheduler decide differently on a report of trial " +
                            std::to_string(reported->trial));
  }
  return {};
}

// The journal comes from outside of the program, so an event that makes no sense is refused.
Result<void> Sweep::check(const SweepEvent& event) const {
  const std::uint64_t trial = trial_of(event);
  const auto senseless = [&](const char* what) {
    return of_another_sweep("trial " + std::to_string(trial) + ' ' + what);
  };
  if (const auto* const began = std::get_if<TrialBegan>(&event)) {
    if (trial != trials_.size()) return senseless("begins out of order");
    if (auto fits = space_.check(began->params); !fits) return of_another_sweep(fits.error().message());
    if (proposals_.must_wait(trial)) return senseless("begins before other trials have ended");
    return {};
  }
  if (trial >= trials_.size()) return senseless("has not begun");
  const State state = trials_[trial].state;
  if (const auto* const resumed = std::get_if<TrialResumed>(&event)) {
    const bool paused = resumed->from != TrialResumed::From::kInterruption;
    // The journal has no event for the end of a tuner. A trial that was running then is resumed by the next tuner.
    if (paused ? state != State::kPaused : state != State::kWaiting && state != State::kRunning)
      return senseless("is resumed, but it was not waiting or paused");
    return {};
  }
  const bool cut = std::holds_alternative<TrialCut>(event);
  const bool saved = std::holds_alternative<TrialSaved>(event);
  if (state == State::kRunning || (cut && state == State::kPaused) || saved) return {};
  return senseless("has an event after its end");
}

void Sweep::interrupt() {
  for (TrialResult& trial : trials_) {
    if (trial.state != State::kRunning) continue;
    trial.state = State::kWaiting;
    waiting_.insert(trial.number);
    --running_;
  }
}

void Sweep::happen(SweepEvent event) {
  // A checkpoint, which may be written late, gives no paused trial another chance.
  exhausted_ = exhausted_ && std::holds_alternative<TrialSaved>(event);
  std::visit([this](auto& each) { apply(each); }, event);
  record_(event);
}

// ---- What runs

std::optional<std::uint64_t> Sweep::next(double now) {
  if (time_is_over(now)) return std::nullopt;
  if (!waiting_.empty()) return resume(*waiting_.begin(), TrialResumed::From::kInterruption);
  if (const auto chosen = scheduler_.next()) return resume(*chosen, TrialResumed::From::kPause);
  const std::uint64_t trial = trials_.size();
  if (trial < rules_.trials && !proposals_.must_wait(trial)) {
    happen(TrialBegan{trial, proposals_.propose(trial), now});
    return trial;
  }
  if (running_ != 0) return std::nullopt;
  if (const auto chosen = scheduler_.last_chance()) return resume(*chosen, TrialResumed::From::kLastPause);
  if (trial >= rules_.trials || paused_.empty()) {
    exhausted_ = true;
    return std::nullopt;
  }
  // A new trial waits for the result of a paused one, and nothing would resume that.
  cut(*paused_.begin(), now);
  return next(now);
}

std::optional<std::uint64_t> Sweep::resume(std::uint64_t trial, TrialResumed::From from) {
  happen(TrialResumed{trial, from});
  return trial;
}

bool Sweep::is_over(double now) const {
  if (running_ != 0) return false;
  if (time_is_over(now)) return true;
  return waiting_.empty() && trials_.size() >= rules_.trials && (paused_.empty() || exhausted_);
}

std::uint64_t Sweep::until(std::uint64_t trial) const {
  const std::uint64_t decides = scheduler_.decides_at(trial);
  return rules_.steps == 0 ? decides : std::min(decides, rules_.steps);
}

// ---- What happens to a trial

Result<Value> Sweep::ask(std::uint64_t trial, const std::string& name, const Domain& domain) {
  const Params& params = trials_.at(trial).params;
  if (const Value* const known = params.find(name)) return *known;
  if (space_.find(name) != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "parameter \"" + name + "\" is asked for by trial " + std::to_string(trial) +
                     ", but the space has this parameter only with other values of the trial's parameters",
                 "Check the trial's parameters first, or use another name."};
  }
  Value value;
  try {
    value = proposals_.answer(trial, name, domain);
  } catch (const InvalidArgument& refused) {
    return refused.error();
  }
  // An event behind the end of a trial would make the journal unreadable.
  if (runs(trial)) happen(TrialAsked{trial, name, value});
  return value;
}

void Sweep::saved(std::uint64_t trial, std::uint64_t step) {
  happen(TrialSaved{trial, step});
}

Result<Sweep::Decision> Sweep::report(std::uint64_t trial, std::uint64_t step, const Metrics& metrics, double now) {
  const TrialResult& its = trials_.at(trial);
  if (its.state != State::kRunning) return Decision{.verdict = Verdict::kStop};
  // The trial has reported this step before, and was then started again from an older checkpoint.
  if (step <= its.step) return Decision{.until = std::min(its.step + 1, until(trial))};
  if (!value_in(metrics, rules_.metric)) {
    std::string names;
    for (const auto& [name, value] : metrics.entries()) names += (names.empty() ? "" : ", ") + name;
    return Error{ErrorCode::kInvalidArgument,
                 "the sweep's metric is \"" + rules_.metric + "\", and trial " + std::to_string(trial) +
                     " has reported " + (names.empty() ? "nothing" : "only " + names),
                 "Report it by that name, or name another metric."};
  }
  happen(TrialReported{trial, step, metrics, now});
  return decided_;
}

void Sweep::returned(std::uint64_t trial, const Metrics& metrics, double now) {
  const TrialResult& its = trials_.at(trial);
  if (its.state != State::kRunning) return;
  const auto value = value_in(metrics, rules_.metric);
  if (value ? std::isnan(*value) : !its.value) {
    return failed(trial,
                  value ? "the result of the objective is not a number"
                        : "the objective did not return \"" + rules_.metric + "\", the metric of the sweep",
                  false, now);
  }
  happen(TrialReturned{trial, metrics, now});
}

void Sweep::failed(std::uint64_t trial, const std::string& why, bool may_retry, double now) {
  if (trials_.at(trial).state != State::kRunning) return;
  happen(TrialFailed{trial, why, may_retry && failures_[trial] < rules_.retries, now});
}

void Sweep::cut(std::uint64_t trial, double now) {
  const State state = trials_.at(trial).state;
  if (state == State::kRunning || state == State::kPaused) happen(TrialCut{trial, now});
}

// ---- What follows from an event

// note() updates the result of the trial; the rest of each apply() updates the sweep.

void Sweep::apply(const TrialBegan& event) {
  note(event);
  saved_steps_.push_back(0);
  failures_.push_back(0);
  ++running_;
  proposals_.began(event.trial, event.params);
  scheduler_.began(event.trial, event.params);
}

void Sweep::apply(const TrialResumed& event) {
  waiting_.erase(event.trial);
  paused_.erase(event.trial);
  if (!runs(event.trial)) ++running_;
  note(event);
}

void Sweep::apply(const TrialAsked& event) {
  note(event);
  proposals_.asked(event.trial, at(event.trial).params);
}

void Sweep::apply(const TrialSaved& event) {
  saved_steps_[event.trial] = event.step;
}

void Sweep::apply(TrialReported& event) {
  decided_ = {};
  // Decisions that depended on the time, and those of another program, cannot be taken again: the journal's count.
  const bool is_decided = replays_ && (event.led == Led::kTimeOver || event.led == Led::kNothing);
  if (!is_decided) event.led = decide(event, event.params);
  note(event);
  switch (event.led) {
    case Led::kNothing: return;
    case Led::kGoOn: decided_.until = until(event.trial); return;
    case Led::kCopy: decided_.verdict = Verdict::kPause; return;
    case Led::kPause:
      decided_.verdict = Verdict::kPause;
      paused_.insert(event.trial);
      --running_;
      return;
    case Led::kStop:
    case Led::kEnd:
    case Led::kTimeOver:
      decided_.verdict = Verdict::kStop;
      scheduler_.ended(event.trial);
      return end(event.trial);
  }
}

Led Sweep::decide(const TrialReported& event, std::optional<Params>& params) {
  if (rules_.steps != 0 && event.step >= rules_.steps) return Led::kEnd;
  if (!replays_ && time_is_over(event.seconds)) return Led::kTimeOver;
  const double value = value_in(event.metrics, rules_.metric).value_or(std::numeric_limits<double>::quiet_NaN());
  const auto decision = scheduler_.report(event.trial, event.step, rules_.goal == Goal::kMaximise ? -value : value);
  using Kind = TrialScheduler::Decision::Kind;
  switch (decision.kind) {
    case Kind::kGoOn: return Led::kGoOn;
    case Kind::kStop: return Led::kStop;
    case Kind::kEnd: return Led::kEnd;
    case Kind::kPause: return Led::kPause;
    case Kind::kCopy: break;
  }
  decided_.copy_of = decision.from;
  params = decision.params;
  return Led::kCopy;
}

void Sweep::apply(const TrialReturned& event) {
  note(event);
  scheduler_.ended(event.trial);
  end(event.trial);
}

void Sweep::apply(const TrialFailed& event) {
  note(event);
  if (!event.again) {
    scheduler_.ended(event.trial);
    return end(event.trial);
  }
  ++failures_[event.trial];
  waiting_.insert(event.trial);
  --running_;
}

void Sweep::apply(const TrialCut& event) {
  if (paused_.erase(event.trial) != 0) ++running_;  // end() counts it down again
  note(event);
  scheduler_.ended(event.trial);
  end(event.trial);
}

void Sweep::note(const SweepEvent& event) {
  const auto noted = ml::note(event, rules_.metric, trials_);
  PHAROS_CHECK(noted.ok(), trial_of(event));
}

void Sweep::end(std::uint64_t trial) {
  --running_;
  ++over_;
  proposals_.ended(at(trial));
}

}  // namespace pharos::ml
