#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>

namespace pharos::ml {

// What happens in a sweep. A journal is a list of these; the same list makes the same sweep, which asks the same next.

struct TrialBegan {
  std::uint64_t trial = 0;
  Params params{};
  double seconds = 0;  // since the sweep began, here and below
};
struct TrialResumed {
  enum class From : std::uint8_t {
    kInterruption,  // its worker has died, or its tuner had ended
    kPause,
    kLastPause,  // nothing else would have run
  };
  std::uint64_t trial = 0;
  From from = From::kInterruption;
};
struct TrialAsked {
  std::uint64_t trial = 0;
  std::string name{};
  Value value{};
};
/// What a report has led to.
enum class Led : std::uint8_t {
  kGoOn,
  kStop,
  kEnd,  // it had done all its steps
  kPause,
  kCopy,
  kTimeOver,  // of the sweep
  kNothing,   // it was another program's trial, whose scheduler nobody asks
};
struct TrialReported {
  std::uint64_t trial = 0;
  std::uint64_t step = 0;
  Metrics metrics{};
  double seconds = 0;
  Led led = Led::kGoOn;
  std::optional<Params> params{};  // that it goes on with, as a copy
};
/// What it goes on from: its checkpoint of that step, in the folder if there is one; 0: its beginning.
struct TrialSaved {
  std::uint64_t trial = 0;
  std::uint64_t step = 0;
};
/// Its objective has come back by itself.
struct TrialReturned {
  std::uint64_t trial = 0;
  Metrics metrics{};
  double seconds = 0;
};
struct TrialFailed {
  std::uint64_t trial = 0;
  std::string why{};
  bool again = false;
  double seconds = 0;
};
/// The sweep's time was over.
struct TrialCut {
  std::uint64_t trial = 0;
  double seconds = 0;
};
using SweepEvent =
    std::variant<TrialBegan, TrialResumed, TrialAsked, TrialReported, TrialSaved, TrialReturned, TrialFailed, TrialCut>;

std::uint64_t trial_of(const SweepEvent& event);
/// Since the sweep began; 0 where it is not said.
double seconds_of(const SweepEvent& event);
/// The value of the sweep's metric, also by no name.
std::optional<double> value_in(const Metrics& metrics, const std::string& metric);

/// What has come of the trials, by the events alone. An error: it is of a trial that has not begun.
Result<void> note(const SweepEvent& event, const std::string& metric, std::vector<TrialResult>& trials);

}  // namespace pharos::ml
