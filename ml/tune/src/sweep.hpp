#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/ml/searcher.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/ml/trial_scheduler.hpp>

#include "sweep_events.hpp"

namespace pharos::ml {

struct SweepRules {
  static constexpr auto kEndless = std::numeric_limits<std::uint64_t>::max();

  std::string metric = "value";
  Goal goal = Goal::kMinimise;
  std::vector<std::string> constraints{};
  std::uint64_t trials = 0;
  std::uint64_t steps = 0;    // of a trial; 0: until it returns, or is stopped
  std::uint32_t retries = 0;  // of a trial whose worker has died
  double seconds_max = 0;     // 0: as long as it takes
  std::size_t in_order = 0;  // n: an ask sees the results of all trials but the last n, and no others; 0: what there is
  std::vector<Params> first{};  // what the first trials try, as far as it is given
};

/// Which trial runs when, and what has come of it. Pure: time and events go in. Owned by the tuner; one thread.
class Sweep {
 public:
  /// Hears of each event, but for those of replay().
  using Record = std::function<void(const SweepEvent& event)>;

  Sweep(SweepRules rules, const Space& space, Searcher& searcher, TrialScheduler& scheduler, Record record);

  /// What a journal has. An error: it is of another sweep.
  Result<void> replay(const SweepEvent& event);
  /// After a replay: what ran then is to be begun again.
  void interrupt();

  /// There is room for a trial: which one runs now. None: there is nothing to run until something has ended.
  std::optional<std::uint64_t> next(double now);
  /// Nothing runs, and nothing more will.
  bool is_over(double now) const;

  Result<Value> ask(std::uint64_t trial, const std::string& name, const Domain& domain);
  void saved(std::uint64_t trial, std::uint64_t step);
  struct Decision {
    Verdict verdict = Verdict::kGoOn;
    std::uint64_t until = 0;  // reports before that step are not waited for
    /// It is to be begun at once, from the checkpoint of that trial.
    std::optional<std::uint64_t> copy_of{};
  };
  Result<Decision> report(std::uint64_t trial, std::uint64_t step, const Metrics& metrics, double now);
  void returned(std::uint64_t trial, const Metrics& metrics, double now);
  void failed(std::uint64_t trial, const std::string& why, bool may_retry, double now);
  /// Its worker was ended, because the sweep's time is over.
  void cut(std::uint64_t trial, double now);

  const std::vector<TrialResult>& trials() const { return trials_; }
  const TrialResult& at(std::uint64_t trial) const { return trials_.at(trial); }
  bool runs(std::uint64_t trial) const { return at(trial).state == TrialResult::State::kRunning; }
  std::size_t running() const { return running_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t paused() const { return paused_.size(); }
  std::size_t over() const { return over_; }
  /// What it goes on from: that step of its own checkpoint. 0: from the beginning.
  std::uint64_t saved_step(std::uint64_t trial) const { return saved_steps_.at(trial); }
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
  bool is_blocked(std::uint64_t trial) const;
  Params propose(std::uint64_t trial);
  Value answer_to(std::uint64_t trial, const std::string& name, const Domain& domain);
  Led decide(const TrialReported& event, std::optional<Params>& params);
  std::optional<std::uint64_t> resume(std::uint64_t trial, TrialResumed::From from);
  void end(std::uint64_t trial);
  void tell(std::uint64_t trial, const Outcome& outcome);
  void tell_up_to(std::uint64_t trial);
  Outcome outcome_of(const TrialResult& trial, Outcome::State state) const;

  const SweepRules rules_;
  const Space space_;
  Searcher& searcher_;
  TrialScheduler& scheduler_;
  const Record record_;
  const std::unique_ptr<Searcher> by_chance_;  // what is asked for as trials run, where order matters

  std::vector<TrialResult> trials_;  // [n] has number n
  std::vector<std::uint64_t> saved_steps_;
  std::vector<std::uint32_t> failures_;
  std::map<std::uint64_t, Params> proposed_;  // for what they may ask, by trial
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> paused_;
  std::vector<std::optional<Outcome>> untold_;  // where order matters
  std::uint64_t told_ = 0;
  std::size_t running_ = 0;
  std::size_t over_ = 0;
  bool replays_ = false;
  bool exhausted_ = false;  // nothing ran, and nothing was to go on
  Decision decided_;        // on the report that happened last
};

}  // namespace pharos::ml
