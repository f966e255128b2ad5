#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>

/// Trial schedulers decide, from the reports of trials, which trials go on.
namespace pharos::ml {

/// Decides which trials go on. Pure: each decision follows from the calls so far, in their order, so a sweep can be
/// replayed from its journal. Trials report at steps from 1 on, in rising order. Less is better, and NaN is the worst
/// value; a sweep that maximises passes negated values. The tuner owns its scheduler, and one thread at a time may use
/// it. What a scheduler throws ends the sweep: Tuner::run() throws it. began() is the first call for each trial.
class PHAROS_API TrialScheduler {
 public:
  /// The answer to a report: how the trial goes on.
  struct Decision {
    enum class Kind : std::uint8_t {
      kGoOn,
      kStop,
      kEnd,    ///< the trial is complete: it has done all its steps
      kPause,  ///< the trial pauses until next() or last_chance() returns it, or forever
      kCopy,   ///< the trial continues from the last checkpoint of trial `from`, with `params`
    };
    Kind kind = Kind::kGoOn;
    std::uint64_t from = 0;
    Params params{};
  };

  TrialScheduler() = default;
  TrialScheduler(TrialScheduler&&) = delete;
  virtual ~TrialScheduler();

  virtual void began(std::uint64_t trial, const Params& params) = 0;
  /// Returns the next step at which report() may answer anything but kGoOn. Earlier reports are noted, and the trial
  /// does not wait for an answer to them. The default is 0: the trial waits for the answer to each report.
  virtual std::uint64_t decides_at(std::uint64_t trial) const;
  virtual Decision report(std::uint64_t trial, std::uint64_t step, double value) = 0;
  /// The trial has ended or failed, and reports no more. It may have been paused, or stopped by this scheduler.
  virtual void ended(std::uint64_t trial) = 0;
  /// Called when there is room for a trial. Returns a paused trial that goes on, in preference to a new one; nullopt if
  /// no paused trial is to go on.
  virtual std::optional<std::uint64_t> next() = 0;
  /// Called when no trial runs and no new one can begin. Returns a paused trial that goes on all the same, so that
  /// paused trials do not wait forever for others; nullopt if they stay paused.
  virtual std::optional<std::uint64_t> last_chance() { return next(); }
};

/// Lets all trials run to their end.
PHAROS_API std::unique_ptr<TrialScheduler> run_all();

/// Asynchronous successive halving (ASHA; Li and others, 2020). Trials are compared on rungs: at step `first`, at
/// `factor` times that step, and so on. On each rung the best 1 / `factor` of the trials go on. Step `most` ends a
/// trial.
struct AshaOptions {
  std::uint64_t first = 1;
  std::uint64_t most = 100;
  double factor = 4;
  /// True: a trial pauses on each rung, and is resumed once it is among the best. False: a trial is stopped on a rung
  /// if it is not among the best of the trials that have reached the rung so far.
  bool promotes = false;
};
/// Throws InvalidArgument unless 1 <= first <= most and factor >= 2.
PHAROS_API std::unique_ptr<TrialScheduler> asha(const AshaOptions& options = {});

/// HyperBand (Li and others, 2018): several brackets of successive halving. The first bracket has many trials that
/// begin with few steps, and later brackets have fewer trials that begin with more steps. On each rung a bracket waits
/// for all of its trials.
struct HyperBandOptions {
  std::uint64_t most = 81;
  double factor = 3;
};
/// Throws InvalidArgument unless most >= 1 and factor >= 2.
PHAROS_API std::unique_ptr<TrialScheduler> hyperband(const HyperBandOptions& options = {});

/// Stops a trial whose best report so far is worse than the median of the other trials' averages up to the same step.
struct MedianOptions {
  std::uint64_t grace = 1;  ///< no trial is stopped up to this step
  std::size_t trials = 5;   ///< no trial is stopped until this many others have reached its step
};
PHAROS_API std::unique_ptr<TrialScheduler> median_stop(const MedianOptions& options = {});

/// Stops a trial whose best report has not improved by more than `least` during the last `reports` reports.
struct PatienceOptions {
  std::uint64_t reports = 10;
  double least = 0;
};
PHAROS_API std::unique_ptr<TrialScheduler> patience(const PatienceOptions& options = {});

/// Stops a trial when the standard deviation of its last `reports` reports is at most `deviation`.
struct PlateauOptions {
  std::size_t reports = 4;
  double deviation = 0.01;
  std::uint64_t grace = 4;  ///< no trial is stopped before this step
};
PHAROS_API std::unique_ptr<TrialScheduler> plateau(const PlateauOptions& options = {});

/// Population based training (Jaderberg and others, 2017). Every `interval` steps, a trial among the worst `share` of
/// the trials continues as a copy of a trial among the best `share`, with parameters that are changed a little or
/// sampled again.
struct PbtOptions {
  std::uint64_t seed = 0;
  std::uint64_t interval = 10;       ///< trials must save at least as often (TunerOptions::save_every)
  double share = 0.25;               ///< above 0, and at most 0.5
  double redraw_probability = 0.25;  ///< probability that a parameter is sampled again
  /// Factor that numbers are multiplied or divided by; 1 or more. A number that this leaves where it is, such as 0,
  /// moves by the share `change` - 1 of its range instead.
  double change = 1.2;
};
/// Throws InvalidArgument if an option is out of its range.
PHAROS_API std::unique_ptr<TrialScheduler> pbt(const Space& space, const PbtOptions& options = {});

}  // namespace pharos::ml
