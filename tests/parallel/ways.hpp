#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>

#include <pharos/ml/sharded.hpp>

#include "ranks.hpp"

namespace pharos::ml {

enum class Reach { kMemory, kTcp, kMachines };
struct Way {
  Sharding sharding = Sharding::kParameters;
  bool reshard = true;
  std::uint32_t ranks = 2;
  Reach reach = Reach::kMemory;
};
inline std::ostream& operator<<(std::ostream& out, const Way& way) {
  const char* const kNames[] = {"Zero1", "Zero2", "Full"};
  const char* const kReaches[] = {"Memory", "Tcp", "Machines"};
  return out << kNames[static_cast<int>(way.sharding)] << (way.reshard ? "" : "Staying") << "On" << way.ranks
             << kReaches[static_cast<int>(way.reach)];
}

inline void on_ranks(const Way& way, const Rank& body) {
  const CommunicatorOptions options{.timeout = std::chrono::seconds{20}};
  switch (way.reach) {
    case Reach::kMemory: return run_threads(way.ranks, options, body);
    case Reach::kTcp: return run_streams(way.ranks, options, body);
    case Reach::kMachines: return run_machines(2, way.ranks / 2, options, body);
  }
}

}  // namespace pharos::ml
