#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <pharos/ml/space.hpp>
#include <pharos/ml/trial_result.hpp>

namespace pharos::ml {

/// The options of a sweep that decide what happens in it. A value, which run_sweep() makes from checked TunerOptions,
/// and which Sweep keeps.
struct SweepRules {
  static constexpr auto kEndless = std::numeric_limits<std::uint64_t>::max();

  std::string metric = "value";
  Goal goal = Goal::kMinimise;
  std::vector<std::string> constraints{};
  std::uint64_t trials = 0;
  std::uint64_t steps = 0;    // steps after which a trial is complete; 0: it runs until it returns or is stopped
  std::uint32_t retries = 0;  // how often a trial is started again after its worker has died
  double seconds_max = 0;     // 0: no limit
  // n above 0: trial t is proposed from exactly the results of trials 0 to t - n, in their order. 0: each trial is
  // proposed from the results that there are.
  std::size_t in_order = 0;
  std::vector<Params> first{};  // parameters of the first trials, which may be incomplete
};

}  // namespace pharos::ml
