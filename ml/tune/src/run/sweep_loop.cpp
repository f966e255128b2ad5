#include "run/sweep_loop.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/ml/display.hpp>

#include "show/tables.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using detail::TrialEvent;

constexpr std::size_t kFailuresMax = 5;  // slots that fail one after the other before the sweep ends with an error
// A trial that takes less is short: a message to the tuner and back costs it more than to wait in line for a worker.
constexpr Duration kShort = 100ms;

}  // namespace

SweepLoop::SweepLoop(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler,
                     TrialSlots& slots, Times times, std::size_t best_kept_max)
    : slots_{slots},
      times_{times},
      space_{space},
      sweep_{std::move(rules), space, searcher, scheduler,
             [this](const SweepEvent& event) { folder_.note(event, sweep_.at(trial_of(event))); }},
      orders_ahead_{!searcher.learns() && sweep_.rules().in_order == 0},
      best_kept_max_{best_kept_max} {}

// ---- The folder

Result<void> SweepLoop::keep_in(const std::filesystem::path& folder, const JournalHead& head,
                                SweepFolder::Existing existing, const SweepFolder::Keeps& keeps) {
  PHAROS_TRY_VOID(folder_.open(folder, head, existing, keeps, space_));
  PHAROS_TRY_VOID(folder_.replay([&](const SweepEvent& event) -> Result<void> {
    PHAROS_TRY_VOID(sweep_.replay(event));
    before_ = std::max(before_, seconds_of(event));
    folder_.log(event, sweep_.at(trial_of(event)));
    return {};
  }));
  sweep_.interrupt();
  return read_checkpoints();
}

/// Gives the slots the checkpoints of an earlier tuner.
Result<void> SweepLoop::read_checkpoints() {
  SweepFolder::Saved saved;
  for (const TrialResult& trial : sweep_.trials()) {
    if (const std::uint64_t step = sweep_.saved_step(trial.number); step != 0) saved.emplace(trial.number, step);
  }
  PHAROS_TRY_VOID(folder_.open_checkpoints(saved));
  for (const auto& [trial, step] : saved) {
    auto bytes = folder_.read_checkpoint(trial, step);
    if (!bytes) {
      log(LogLevel::kWarn, "the checkpoint of a trial cannot be read, so the trial starts from the beginning",
          {kv("trial", trial), kv("error", bytes.error())});
      continue;
    }
    slots_.keep(trial, *bytes);
    kept_steps_[trial] = step;
    if (const auto state = sweep_.at(trial).state;
        state != TrialResult::State::kWaiting && state != TrialResult::State::kPaused) {
      trial_is_over(trial);
    }
  }
  return {};
}

Result<void> SweepLoop::write() {
  for (const auto& written : folder_.written_checkpoints()) {
    if (written.error) {
      log(LogLevel::kWarn, "the checkpoint of a trial could not be written",
          {kv("trial", written.trial), kv("error", *written.error)});
      continue;
    }
    if (!kept_steps_.contains(written.trial)) continue;  // the trial has ended, and its checkpoint is not needed
    sweep_.saved(written.trial, written.step);
    effects_.emplace_back([this, written] { folder_.forget_before(written.trial, written.step); });
  }
  PHAROS_TRY_VOID(folder_.write());
  for (const auto& effect : std::exchange(effects_, {})) effect();
  return {};
}

// ---- What runs

Result<SweepResults> SweepLoop::run(const std::function<bool()>& interrupted) {
  began_ = slots_.now();
  bool was_interrupted = false;
  for (;;) {
    fill();
    PHAROS_TRY_VOID(write());
    if (sweep_.is_over(seconds()) && all_have_come_back()) break;
    if (was_interrupted = interrupted(); was_interrupted) break;
    for (TrialSlots::Message& message : slots_.wait(wake_at())) PHAROS_TRY_VOID(take_message(std::move(message)));
    PHAROS_TRY_VOID(check_hope());
    look_at_times();
    if (progress_ && slots_.now() >= progress_->next()) progress_->show(sweep_, seconds(), slots_.now());
  }
  if (!was_interrupted) forget_paused();
  folder_.finish_checkpoints();
  PHAROS_TRY_VOID(write());
  folder_.finish_checkpoints();
  PHAROS_TRY_VOID(folder_.sync());
  if (progress_) progress_->end(sweep_, seconds());
  if (was_interrupted) say_how_to_go_on();
  return results(was_interrupted);
}

/// A mistake in the objective would fail all further trials, too.
Result<void> SweepLoop::check_hope() const {
  const auto has_result = [](const TrialResult& trial) { return has_value(trial); };
  if (!failures_alike_.are_many() || std::ranges::any_of(sweep_.trials(), has_result)) return {};
  const auto& trials = sweep_.trials();
  const auto failed =
      std::find_if(trials.rbegin(), trials.rend(), [](const auto& each) { return !each.error.empty(); });
  return Error{ErrorCode::kUserError, std::to_string(FailuresAlike::kMax) +
                                          " trials in a row have failed alike, and none has a result; trial " +
                                          std::to_string(failed->number) + ": " + failed->error};
}

// At the end of a sweep, slots may still have trials that were told to stop. From then on they have the grace time to
// do so, even if the sweep has no time limit.
bool SweepLoop::all_have_come_back() {
  const bool all = std::none_of(of_slots_.begin(), of_slots_.end(), [](const Slot& slot) { return slot.trial; });
  if (!all && over_at_ == TimePoint::max()) over_at_ = slots_.now() + times_.grace;
  return all;
}

TimePoint SweepLoop::wake_at() const {
  const TimePoint now = slots_.now();
  TimePoint when = std::min(now + slots_.look_time(), over_at_);
  if (progress_) when = std::min(when, progress_->next());
  if (const double limit = sweep_.rules().seconds_max; limit > 0 && over_at_ == TimePoint::max()) {
    const std::chrono::duration<double> left{std::max(limit - seconds(), 0.0)};
    // One nanosecond more, because the cast rounds down and the loop would wake up just before the limit.
    when = std::min(when, now + std::chrono::duration_cast<Duration>(left) + 1ns);
  }
  if (times_.silence != Duration{}) {
    for (const Slot& slot : of_slots_) {
      if (slot.trial) when = std::min(when, slot.heard_at + times_.silence);
    }
  }
  return std::max(when, now);
}

void SweepLoop::fill() {
  const std::size_t to_run = sweep_.running() + sweep_.waiting() + (sweep_.paused() != 0 ? 1 : 0);
  slots_.want(static_cast<std::size_t>(std::min<std::uint64_t>(to_begin(), std::uint64_t{1} << 20)) + to_run);
  while (!idle_.empty()) {
    const auto trial = next();
    if (!trial) return;
    // The trial was told to pause, and goes on before it has left its slot. It starts again there once it has saved.
    if (Slot* const leaving = slot_of(*trial)) {
      leaving->again_as = *trial;
    } else {
      start(*idle_.begin(), *trial, *trial);
    }
  }
  if (orders_ahead_) order_ahead();
}

std::uint64_t SweepLoop::to_begin() const {
  const std::uint64_t trials = sweep_.rules().trials;
  return trials - std::min<std::uint64_t>(trials, sweep_.trials().size());
}

std::optional<std::uint64_t> SweepLoop::next() {
  if (taken_back_.empty()) return sweep_.next(seconds());
  const std::uint64_t trial = taken_back_.back();
  taken_back_.pop_back();
  return trial;
}

// Gives slots their next trial before the present one ends, so that workers do not wait for a message to the tuner and
// back. It does so only while trials are short, and while enough are left for all slots.
void SweepLoop::order_ahead() {
  if (short_ones_ < 2 * of_slots_.size()) return;
  for (std::size_t slot = 0; slot < of_slots_.size(); ++slot) {
    Slot& its = of_slots_[slot];
    if (!its.trial || its.ahead || !slots_.takes_another(slot)) continue;
    if (to_begin() < 2 * of_slots_.size()) return;
    if (!(its.ahead = next())) return;
    order(slot, *its.ahead, *its.ahead);
  }
}

SweepLoop::Slot* SweepLoop::slot_of(std::uint64_t trial) {
  if (sweep_.at(trial).attempts == 1) return nullptr;
  const auto found = std::find_if(of_slots_.begin(), of_slots_.end(), [&](const Slot& s) { return s.trial == trial; });
  return found == of_slots_.end() ? nullptr : &*found;
}

void SweepLoop::start(std::size_t slot, std::uint64_t trial, std::uint64_t checkpoint_of) {
  idle_.erase(slot);
  of_slots_[slot] = {.trial = trial, .heard_at = slots_.now()};
  order(slot, trial, checkpoint_of);
}

void SweepLoop::order(std::size_t slot, std::uint64_t trial, std::uint64_t checkpoint_of) {
  const TrialResult& result = sweep_.at(trial);
  detail::TrialStart start;
  start.begin = {.trial = trial, .attempt = result.attempts - 1, .step = 0, .params = result.params};
  start.until = sweep_.until(trial);
  start.save_every = times_.save_every;
  // A trial that continues as a copy of another one keeps its own count of steps.
  if (const auto step = kept_steps_.find(checkpoint_of); step != kept_steps_.end()) {
    start.checkpoint = slots_.kept(checkpoint_of);
    if (start.checkpoint) start.begin.step = checkpoint_of == trial ? step->second : result.step;
  }
  effects_.emplace_back([this, slot, start = std::move(start)]() mutable { slots_.start(slot, std::move(start)); });
}

void SweepLoop::free(std::size_t slot) {
  const auto ahead = of_slots_[slot].ahead;
  of_slots_[slot] = {.trial = ahead, .heard_at = slots_.now()};
  if (!ahead) idle_.insert(slot);
}

/// Forgets what runs in a slot. A trial that was ordered ahead there has reported nothing, and goes to another slot.
void SweepLoop::give_up(std::size_t slot) {
  if (const auto ahead = of_slots_[slot].ahead) taken_back_.push_back(*ahead);
  of_slots_[slot] = {};
}

// ---- Messages from the slots

Result<void> SweepLoop::take_message(TrialSlots::Message message) {
  if (message.slot >= of_slots_.size()) of_slots_.resize(message.slot + 1);
  if (const auto* const lost = std::get_if<Error>(&message.heard)) return take_loss(message.slot, *lost);
  if (std::holds_alternative<TrialSlots::Ready>(message.heard)) {
    failures_ = 0;
    free(message.slot);
    return {};
  }
  const TimePoint now = slots_.now();
  const TimePoint before = std::exchange(of_slots_[message.slot].heard_at, now);
  short_ones_ = now - before < kShort ? short_ones_ + 1 : 0;
  for (TrialEvent& event : std::get<std::vector<TrialEvent>>(message.heard)) {
    if (of_slots_[message.slot].trial) take_event(message.slot, event);
  }
  return {};
}

// The slot's workers have died, or could not be made.
Result<void> SweepLoop::take_loss(std::size_t slot, const Error& lost) {
  if (!of_slots_[slot].trial && (++failures_ > kFailuresMax || lost.code() != ErrorCode::kActorDied)) {
    return Error{lost}.with("making workers for trials");
  }
  fail(slot, lost.story(), lost.code() != ErrorCode::kUserError);
  return {};
}

void SweepLoop::fail(std::size_t slot, const std::string& why, bool may_retry) {
  if (const auto trial = of_slots_[slot].trial) {
    sweep_.failed(*trial, why, may_retry, seconds());
    trial_is_over(*trial);
  }
  give_up(slot);
  effects_.emplace_back([this, slot] { slots_.replace(slot); });
}

void SweepLoop::take_event(std::size_t slot, TrialEvent& event) {
  const std::uint64_t trial = *of_slots_[slot].trial;
  if (auto* const asks = std::get_if<detail::TrialAsks>(&event)) {
    auto value = sweep_.ask(trial, asks->name, asks->domain);
    if (!value) return fail(slot, value.error().to_string(), false);
    const auto order = std::make_shared<detail::TrialOrder>(std::in_place_type<detail::TrialAnswer>);
    std::get<detail::TrialAnswer>(*order).value = *std::move(value);
    effects_.emplace_back([this, slot, order] { slots_.answer(slot, std::move(*order)); });
  } else if (const auto* const saves = std::get_if<detail::TrialSaves>(&event)) {
    slots_.keep(trial, saves->checkpoint);
    kept_steps_[trial] = saves->step;
    folder_.write_checkpoint(trial, saves->step, saves->checkpoint);
  } else if (const auto* const report = std::get_if<detail::TrialReports>(&event)) {
    take_report(slot, *report);
  } else {
    take_end(slot, std::get<detail::TrialEnds>(event));
  }
}

void SweepLoop::take_report(std::size_t slot, const detail::TrialReports& report) {
  const std::uint64_t trial = *of_slots_[slot].trial;
  const auto decision = sweep_.report(trial, report.step, report.metrics, seconds());
  if (!decision) return fail(slot, decision.error().to_string(), false);
  if (decision->copy_of && !kept_steps_.contains(*decision->copy_of)) {
    return fail(slot,
                "the scheduler wants to continue this trial as a copy of trial " + std::to_string(*decision->copy_of) +
                    ", which has no checkpoint: pass a save function to report(), and set TunerOptions::save_every",
                false);
  }
  of_slots_[slot].again_as = decision->copy_of;
  if (!report.waits) {
    if (decision->verdict == Verdict::kStop && !std::exchange(of_slots_[slot].is_told, true)) {
      effects_.emplace_back([this, slot] { slots_.stop(slot); });
    }
    return;
  }
  effects_.emplace_back([this, slot, verdict = decision->verdict, until = decision->until] {
    slots_.answer(slot, detail::TrialVerdict{verdict, until});
  });
}

// The objective has returned by itself, or because it was told to.
void SweepLoop::take_end(std::size_t slot, const detail::TrialEnds& end) {
  const std::uint64_t trial = *of_slots_[slot].trial;
  const auto again_as = of_slots_[slot].again_as;
  const bool is_told = of_slots_[slot].is_told;
  free(slot);
  if (end.threw) {
    sweep_.failed(trial, *end.threw, false, seconds());
  } else if (is_told && sweep_.at(trial).step != 0) {
    sweep_.cut(trial, seconds());
  } else if (again_as && sweep_.runs(trial)) {
    return start(slot, trial, *again_as);
  } else {
    sweep_.returned(trial, end.metrics, seconds());
  }
  trial_is_over(trial);
}

// Drops the checkpoint of a trial that has ended, unless the trial is one of the best.
void SweepLoop::trial_is_over(std::uint64_t trial) {
  const TrialResult& its = sweep_.at(trial);
  using State = TrialResult::State;
  if (its.state == State::kFailed) failures_alike_.note(its.error);
  const bool ended = its.state == State::kComplete || its.state == State::kStopped || its.state == State::kFailed;
  if (!ended || !kept_steps_.contains(trial)) return;
  if (its.state != State::kFailed && has_value(its)) {
    const auto better = [&](std::uint64_t other, const TrialResult& than) {
      return is_better(sweep_.at(other), than, sweep_.rules().goal);
    };
    best_kept_.insert(std::lower_bound(best_kept_.begin(), best_kept_.end(), its, better), trial);
    if (best_kept_.size() <= best_kept_max_) return;
    trial = best_kept_.back();
    best_kept_.pop_back();
  }
  forget(trial);
}

void SweepLoop::forget(std::uint64_t trial) {
  kept_steps_.erase(trial);
  slots_.forget(trial);
  if (sweep_.saved_step(trial) != 0) sweep_.saved(trial, 0);
  effects_.emplace_back([this, trial] { folder_.forget(trial); });
}

// Drops the checkpoints of trials that stay paused.
void SweepLoop::forget_paused() {
  for (const TrialResult& trial : sweep_.trials()) {
    if (trial.state == TrialResult::State::kPaused && kept_steps_.contains(trial.number)) forget(trial.number);
  }
}

// ---- Time

void SweepLoop::look_at_times() {
  const TimePoint now = slots_.now();
  const double limit = sweep_.rules().seconds_max;
  const bool over = limit > 0 && seconds() >= limit;
  if (over && over_at_ == TimePoint::max()) over_at_ = now + times_.grace;
  for (std::size_t slot = 0; slot < of_slots_.size(); ++slot) {
    Slot& its = of_slots_[slot];
    if (!its.trial) continue;
    if (over && !std::exchange(its.is_told, true)) slots_.stop(slot);
    if (now >= over_at_) {
      sweep_.cut(*its.trial, seconds());
      trial_is_over(*its.trial);
      give_up(slot);
      slots_.replace(slot);
    } else if (times_.silence != Duration{} && now - its.heard_at >= times_.silence) {
      fail(slot, "the trial sent nothing for " + to_text(std::chrono::duration<double>(times_.silence).count()), true);
    }
  }
}

// ---- Results

void SweepLoop::say_how_to_go_on() const {
  const std::string over = "interrupted after " + std::to_string(sweep_.over()) + " trials had ended; ";
  const std::string how = folder_.path().empty() ? "the sweep kept nothing, because TunerOptions::folder is empty"
                                                 : "to continue: pharos tune resume " + folder_.path().string();
  std::fprintf(stderr, "%s%s\n", over.c_str(), how.c_str());
}

SweepResults SweepLoop::results(bool interrupted) {
  SweepResults::Contents contents{.metric = sweep_.rules().metric,
                                  .goal = sweep_.rules().goal,
                                  .trials = sweep_.trials(),
                                  .folder = folder_.path(),
                                  .seconds = seconds(),
                                  .interrupted = interrupted,
                                  .planned = sweep_.rules().trials == SweepRules::kEndless ? 0 : sweep_.rules().trials};
  for (const std::uint64_t trial : best_kept_) {
    if (auto bytes = slots_.kept(trial)) contents.checkpoints.emplace(trial, *std::move(bytes));
  }
  return SweepResults{std::move(contents)};
}

}  // namespace pharos::ml
