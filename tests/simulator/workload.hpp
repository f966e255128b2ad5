#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "simulator/cluster.hpp"

namespace pharos::simulator {

/// How one seed is run.
struct Plan {
  bool faults = true;
  Duration faults_for = std::chrono::milliseconds{150};
  std::uint32_t drivers_max = 3;
  std::uint32_t calls_max = 60;
  std::optional<bool> durable{};  ///< whether the head keeps records; nullopt lets the seed decide
  bool disk_lies = false;         ///< writes are acknowledged before they are durable
  bool asks = false;              ///< meanwhile a program asks what people ask; see Cluster::ask_as_people_do()
  bool drains = false;            ///< a node drains meanwhile, without a time limit
  /// Choose faults for control messages and for frames of calls; may be empty.
  Network::Choose choose{};
  Network::ChooseFrame choose_frame{};
};

struct SeedRun {
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::size_t calls = 0;
  std::size_t executions = 0;
  std::size_t answered = 0;
  std::string wrong;  ///< the violations; empty if every invariant held
};

/// Runs several programs with actors and tasks on one cluster. The seed draws everything, faults too.
SeedRun run_workload(std::uint64_t seed, Plan plan = {});

}  // namespace pharos::simulator
