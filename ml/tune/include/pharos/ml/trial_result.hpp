#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/space.hpp>

namespace pharos::ml {

enum class Goal : std::uint8_t { kMinimise, kMaximise };

/// The state and the results of one trial.
struct TrialResult {
  enum class State : std::uint8_t {
    kWaiting,  ///< it will be started again, because its worker died or its tuner ended
    kRunning,
    kPaused,    ///< its scheduler paused it; if the sweep has ended, other trials were better
    kComplete,  ///< its objective returned, or it did all its steps
    kStopped,   ///< stopped early
    kFailed,
  };

  std::uint64_t number = 0;
  State state = State::kRunning;
  Params params{};
  Metrics metrics{};              ///< the last value of each metric
  std::optional<double> value{};  ///< the last value of the sweep's metric
  std::uint64_t step = 0;         ///< the last step that the trial has reported
  std::uint32_t attempts = 1;     ///< how often it was started, resumptions included
  double began_s = 0;             ///< when it was first started, in seconds since the sweep began
  double ended_s = 0;             ///< when it ended, in seconds since the sweep began
  std::string error{};            ///< the last error of the trial
};
PHAROS_API std::string_view to_string(TrialResult::State state);

}  // namespace pharos::ml
