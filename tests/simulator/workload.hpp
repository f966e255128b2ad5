#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster.hpp"

namespace pharos::simulator {

/// How one seed is run.
struct Plan {
  bool faults = true;
  Duration faults_for = std::chrono::milliseconds{150};
  std::uint32_t drivers_max = 3;
  std::uint32_t calls_max = 60;
  std::optional<bool> durable{};  ///< the head keeps records; else the seed says
  bool disk_lies = false;         ///< it says that they are durable before they are
  /// Faults of control messages, and of calls.
  Network::Choose choose{};
  Network::ChooseFrame choose_frame{};
};

struct SeedRun {
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::size_t calls = 0;
  std::size_t executions = 0;
  std::size_t answered = 0;
  std::string wrong;  ///< empty: every invariant held
};

/// Several programs with actors and tasks on one cluster, everything drawn by the seed, faults too.
SeedRun run_workload(std::uint64_t seed, Plan plan = {});

}  // namespace pharos::simulator
