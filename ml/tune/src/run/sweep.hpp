#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/ml/searcher.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/ml/trial_scheduler.hpp>

#include "run/proposals.hpp"
#include "run/sweep_events.hpp"
#include "run/sweep_rules.hpp"

namespace pharos::ml {

/// Decides which trial runs when, and keeps the results. Pure: events and the time go in, decisions come out. Owned by
/// SweepLoop; one thread. `searcher` and `scheduler` must outlive it. What they throw leaves the functions (except as
/// ask() says), and the sweep is then of no further use. Numbers must be those of trials that have begun. The results
/// that trials() and at() return are valid until the next trial begins.
class Sweep {
 public:
  /// Called with each event as it happens, but not with those of replay(). Called inside of the function that makes the
  /// event happen, when the event has been applied.
  using Record = std::function<void(const SweepEvent& event)>;

  Sweep(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler, Record record);

  /// Applies an event of a journal. Fails with kFailedPrecondition if the journal is of another sweep, or makes no
  /// sense; the sweep is then of no further use.
  Result<void> replay(const SweepEvent& event);
  /// Called after a replay: trials that were running wait to be started again.
  void interrupt();

  /// Called when there is room for a trial. Returns the trial that runs now; nullopt if none can run until another one
  /// has ended, or if the sweep is over. In a deterministic sweep it may cut a paused trial, for whose result a new one
  /// waits.
  std::optional<std::uint64_t> next(double now);
  /// Returns true if no trial runs, and none will.
  bool is_over(double now) const;

  /// Returns the value of a parameter that a trial asks for. The value becomes a parameter of the trial, unless the
  /// trial does not run any more. Fails with kInvalidArgument if the space has the parameter, but not with the trial's
  /// other parameters, and with the InvalidArgument that the searcher throws; the sweep goes on.
  Result<Value> ask(std::uint64_t trial, const std::string& name, const Domain& domain);
  /// The folder has the trial's checkpoint of this step; 0: it has none any more.
  void saved(std::uint64_t trial, std::uint64_t step);
  struct Decision {
    Verdict verdict = Verdict::kGoOn;
    std::uint64_t until = 0;  // the trial does not wait for verdicts on reports of earlier steps
    /// The number of a second trial: the reporting trial leaves its worker, and starts again at once from the
    /// checkpoint of the second trial.
    std::optional<std::uint64_t> copy_of{};
  };
  /// Decides on a report. Fails with kInvalidArgument if the report lacks the sweep's metric. A report of a step that
  /// was reported before has no effect. A trial that does not run is told to stop.
  Result<Decision> report(std::uint64_t trial, std::uint64_t step, const Metrics& metrics, double now);
  /// The objective has returned. Without a value of the sweep's metric, or with NaN, the trial fails. This function,
  /// failed() and cut() have no effect on a trial that has ended.
  void returned(std::uint64_t trial, const Metrics& metrics, double now);
  /// The trial has failed. `may_retry`: it waits to be started again, as often as SweepRules::retries allows.
  void failed(std::uint64_t trial, const std::string& why, bool may_retry, double now);
  /// The trial was ended because the sweep's time is over.
  void cut(std::uint64_t trial, double now);

  const std::vector<TrialResult>& trials() const { return trials_; }
  const TrialResult& at(std::uint64_t trial) const { return trials_.at(trial); }
  bool runs(std::uint64_t trial) const { return at(trial).state == TrialResult::State::kRunning; }
  std::size_t running() const { return running_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t paused() const { return paused_.size(); }
  std::size_t over() const { return over_; }
  /// Returns the step of the trial's checkpoint in the folder; 0 if there is none.
  std::uint64_t saved_step(std::uint64_t trial) const { return saved_steps_.at(trial); }
  /// Returns the next step at which the trial waits for a verdict.
  std::uint64_t until(std::uint64_t trial) const;
  const SweepRules& rules() const { return rules_; }

 private:
  using State = TrialResult::State;

  Result<void> check(const SweepEvent& event) const;
  void happen(SweepEvent event);
  void apply(const TrialBegan& event);
  void apply(const TrialResumed& event);
  void apply(const TrialAsked& event);
  void apply(TrialReported& event);
  void apply(const TrialSaved& event);
  void apply(const TrialReturned& event);
  void apply(const TrialFailed& event);
  void apply(const TrialCut& event);

  void note(const SweepEvent& event);
  bool time_is_over(double now) const { return rules_.seconds_max > 0 && now >= rules_.seconds_max; }
  Led decide(const TrialReported& event, std::optional<Params>& params);
  std::optional<std::uint64_t> resume(std::uint64_t trial, TrialResumed::From from);
  void end(std::uint64_t trial);

  const SweepRules rules_;
  const Space space_;
  Proposals proposals_;
  TrialScheduler& scheduler_;
  const Record record_;

  std::vector<TrialResult> trials_;  // [n] has number n
  std::vector<std::uint64_t> saved_steps_;
  std::vector<std::uint32_t> failures_;
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> paused_;
  std::size_t running_ = 0;
  std::size_t over_ = 0;
  bool replays_ = false;
  bool exhausted_ = false;  // no trial ran, and the scheduler resumed none
  Decision decided_;        // the decision on the last report
};

}  // namespace pharos::ml
