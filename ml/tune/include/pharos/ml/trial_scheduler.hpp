#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>

/// What decides which trials go on. Pure: what it says follows from what it has been told, in that order. One thread. A
/// trial reports how it goes in steps from 1 on, in their order; less is better, and what is no number is the worst.
namespace pharos::ml {

class PHAROS_API TrialScheduler {
 public:
  /// What a trial is to do after a report.
  struct Decision {
    enum class Kind : std::uint8_t {
      kGoOn,
      kStop,
      kEnd,    ///< it has done all its steps
      kPause,  ///< until it is named by next(), or for good
      kCopy,   ///< go on from the last checkpoint of `from`, with `params`
    };
    Kind kind = Kind::kGoOn;
    std::uint64_t from = 0;
    Params params{};
  };

  TrialScheduler() = default;
  TrialScheduler(TrialScheduler&&) = delete;
  virtual ~TrialScheduler();

  virtual void began(std::uint64_t trial, const Params& params) = 0;
  /// Reports of a step before that are noted, and the trial goes on: they need not be waited for.
  virtual std::uint64_t decides_at(std::uint64_t trial) const;
  virtual Decision report(std::uint64_t trial, std::uint64_t step, double value) = 0;
  /// It has come to its end, or failed: it reports no more.
  virtual void ended(std::uint64_t trial) = 0;
  /// There is room for a trial: one that is paused and goes on, rather than a new one.
  virtual std::optional<std::uint64_t> next() = 0;
  /// No new trial comes any more, and none runs: one that goes on all the same, so that nobody waits for ever.
  virtual std::optional<std::uint64_t> last_chance() { return next(); }
};

/// All go on to their end.
PHAROS_API std::unique_ptr<TrialScheduler> run_all();

/// Successive halving without waiting (Li and others, 2020). On the rungs, which are `first` steps, `factor` times as
/// many, and so on, only the best of `factor` trials goes on; up to `most` steps, which end a trial.
struct AshaOptions {
  std::uint64_t first = 1;
  std::uint64_t most = 100;
  double factor = 4;
  /// True: a trial waits on its rung until it is among the best; then it is resumed. Else it is stopped if it is not
  /// among the best of those that have come so far.
  bool promotes = false;
};
PHAROS_API std::unique_ptr<TrialScheduler> asha(const AshaOptions& options = {});

/// Several brackets of successive halving, which begin with more trials and fewer steps or the other way round; on a
/// rung all of the bracket are waited for (Li and others, 2018).
struct HyperBandOptions {
  std::uint64_t most = 81;
  double factor = 3;
};
PHAROS_API std::unique_ptr<TrialScheduler> hyperband(const HyperBandOptions& options = {});

/// Stops a trial whose best report so far is worse than the median of the others' means up to that step.
struct MedianOptions {
  std::uint64_t grace = 1;  ///< steps
  std::size_t trials = 5;   ///< so many others have come as far, at least
};
PHAROS_API std::unique_ptr<TrialScheduler> median_stop(const MedianOptions& options = {});

/// Stops a trial that has not become better by `least` in so many reports.
struct PatienceOptions {
  std::uint64_t reports = 10;
  double least = 0;
};
PHAROS_API std::unique_ptr<TrialScheduler> patience(const PatienceOptions& options = {});

/// Stops a trial whose last reports all lie that close together.
struct PlateauOptions {
  std::size_t reports = 4;
  double deviation = 0.01;
  std::uint64_t grace = 4;  ///< steps
};
PHAROS_API std::unique_ptr<TrialScheduler> plateau(const PlateauOptions& options = {});

/// Population based training (Jaderberg and others, 2017): every so many steps a trial of the worst share goes on as a
/// copy of one of the best share, with parameters that are changed a little, or drawn anew.
struct PbtOptions {
  std::uint64_t seed = 0;
  std::uint64_t interval = 10;  ///< steps; trials are to save as often at least (TunerOptions::save_every)
  double share = 0.25;
  double anew = 0.25;   ///< how likely a parameter is drawn anew
  double change = 1.2;  ///< a number is multiplied or divided by it
};
PHAROS_API std::unique_ptr<TrialScheduler> pbt(const Space& space, const PbtOptions& options = {});

}  // namespace pharos::ml
