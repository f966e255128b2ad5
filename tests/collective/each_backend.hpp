#pragma once

// The base of tests that every backend has to pass, with ranks that are threads and ranks that are processes.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "ranks.hpp"

namespace pharos::ml {

enum class Are { kThreads, kProcesses, kStreams, kOnMachines, kProcessesOnMachines };

/// Ranks on each machine, in the backends with several machines.
inline std::uint32_t on_each(std::uint32_t count) {
  return count == 8 ? 4 : 2;
}

class EachBackend : public testing::TestWithParam<std::pair<Are, std::uint32_t>> {
 protected:
  /// Ranks on each machine in the backends with several machines; otherwise the number of all ranks.
  static std::uint32_t neighbours() {
    const auto [are, count] = GetParam();
    return are == Are::kOnMachines || are == Are::kProcessesOnMachines ? on_each(count) : count;
  }
  static void run(const Rank& body, const CommunicatorOptions& options = {}) {
    const auto [are, count] = GetParam();
    switch (are) {
      case Are::kThreads: return run_threads(count, options, body);
      case Are::kProcesses: return run_processes(count, options, body);
      case Are::kStreams: return run_streams(count, options, body);
      case Are::kOnMachines: return run_machines(count / on_each(count), on_each(count), options, body);
      case Are::kProcessesOnMachines:
        return run_processes(count, options, join_machines(count / on_each(count), on_each(count), options, false),
                             body);
    }
  }
};

inline std::string name_of(const testing::TestParamInfo<EachBackend::ParamType>& chosen) {
  constexpr const char* kNames[] = {"Threads", "Processes", "OverTcp", "OnMachines", "ProcessesOnMachines"};
  return std::to_string(chosen.param.second) + kNames[static_cast<int>(chosen.param.first)];
}

inline const auto kEachBackend =
    testing::Values(std::pair{Are::kThreads, 1U}, std::pair{Are::kThreads, 2U}, std::pair{Are::kThreads, 3U},
                    std::pair{Are::kThreads, 8U}, std::pair{Are::kProcesses, 2U}, std::pair{Are::kProcesses, 3U},
                    std::pair{Are::kProcesses, 4U}, std::pair{Are::kProcesses, 8U}, std::pair{Are::kStreams, 1U},
                    std::pair{Are::kStreams, 2U}, std::pair{Are::kStreams, 3U}, std::pair{Are::kStreams, 5U},
                    std::pair{Are::kOnMachines, 4U}, std::pair{Are::kOnMachines, 6U}, std::pair{Are::kOnMachines, 8U},
                    std::pair{Are::kProcessesOnMachines, 4U});

template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}
/// The value of rank `rank` at `place`: small integers, so that every sum is exact.
template <class T>
T given(std::uint32_t rank, std::size_t place) {
  return element_of<T>(static_cast<double>((place * 7 + rank * 3) % 5));
}
template <class T>
double value_of(T element) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(to_float(element));
  } else {
    return static_cast<double>(element);
  }
}
template <class T>
double reduced(Reduction reduction, std::uint32_t ranks, std::size_t place) {
  double result = value_of(given<T>(0, place));
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const double next = value_of(given<T>(rank, place));
    if (reduction == Reduction::kMax) {
      result = std::max(result, next);
    } else if (reduction == Reduction::kMin) {
      result = std::min(result, next);
    } else {
      result += next;
    }
  }
  if (reduction != Reduction::kMean) return result;
  if constexpr (std::is_same_v<T, Half>) {
    return value_of(to_half(static_cast<float>(result) / static_cast<float>(ranks)));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return value_of(to_bfloat16(static_cast<float>(result) / static_cast<float>(ranks)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(static_cast<T>(result) / static_cast<T>(ranks));
  }
  return result;
}

}  // namespace pharos::ml
