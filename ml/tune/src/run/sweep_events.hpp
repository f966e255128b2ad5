#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/trial_result.hpp>

namespace pharos::ml {

// The events of a sweep. A journal is a list of them: the same list always gives the same sweep, which proposes the
// same trials next. Events are values. Sweep makes them, and so does the code that imports studies.

struct TrialBegan {
  std::uint64_t trial = 0;
  Params params{};
  double seconds = 0;  // since the sweep began, here and below
};
struct TrialResumed {
  enum class From : std::uint8_t {
    kInterruption,  // the trial's worker has died, or its tuner ended
    kPause,         // TrialScheduler::next() has chosen the trial
    kLastPause,     // TrialScheduler::last_chance() has chosen the trial, because nothing else would have run
  };
  std::uint64_t trial = 0;
  From from = From::kInterruption;
};
struct TrialAsked {
  std::uint64_t trial = 0;
  std::string name{};
  Value value{};
};
/// The decision that followed from a report.
enum class Led : std::uint8_t {
  kGoOn,
  kStop,
  kEnd,  // the trial had done all its steps
  kPause,
  kCopy,
  kTimeOver,  // the sweep's time was over
  kNothing,   // no decision: the trial was imported from another program, and no scheduler is asked
};
struct TrialReported {
  std::uint64_t trial = 0;
  std::uint64_t step = 0;
  Metrics metrics{};
  double seconds = 0;
  Led led = Led::kGoOn;
  std::optional<Params> params{};  // kCopy: the parameters with which the trial continues
};
/// The folder has the trial's checkpoint of that step, and the trial would continue from it. Step 0: the checkpoint is
/// dropped, and the trial would start from the beginning.
struct TrialSaved {
  std::uint64_t trial = 0;
  std::uint64_t step = 0;
};
/// The objective has returned by itself.
struct TrialReturned {
  std::uint64_t trial = 0;
  Metrics metrics{};
  double seconds = 0;
};
struct TrialFailed {
  std::uint64_t trial = 0;
  std::string why{};
  bool again = false;  // the trial will be started again
  double seconds = 0;
};
/// The sweep has ended the trial early: because its time was over, or, in a deterministic sweep, because a new trial
/// waits for the result of a paused one. An imported trial that Optuna has pruned ends with this event, too.
struct TrialCut {
  std::uint64_t trial = 0;
  double seconds = 0;
};
using SweepEvent =
    std::variant<TrialBegan, TrialResumed, TrialAsked, TrialReported, TrialSaved, TrialReturned, TrialFailed, TrialCut>;

std::uint64_t trial_of(const SweepEvent& event);
/// Returns the time of the event, since the sweep began; 0 for an event without a time.
double seconds_of(const SweepEvent& event);
/// Returns the value of the sweep's metric, which may also be reported without a name; nullopt if it is missing.
std::optional<double> value_in(const Metrics& metrics, const std::string& metric);

/// Applies an event to the results of the trials. Fails with kCorrupt if the trial has not begun, or begins out of
/// turn; then nothing has changed. Does not check whether a trial that has ended goes on: Sweep::replay() does.
Result<void> note(const SweepEvent& event, const std::string& metric, std::vector<TrialResult>& trials);

}  // namespace pharos::ml
