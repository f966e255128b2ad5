#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>

namespace pharos::node {

/// A worker that could be killed because memory is short. A value, made by MemoryGuard.
struct Candidate {
  bool idle = false;           ///< the worker runs no actor, and no caller has leased the worker
  bool may_run_again = false;  ///< its task has a retry left, or its actor a restart
  TimePoint since;             ///< when it began with its task or actor
  ByteCount memory{};          ///< memory that its end would free
};

/// A pure function. Chooses the worker whose end costs least, and returns its index; nullopt if there are no
/// candidates. An idle worker comes first, then one whose work can run again, then any other. Among equals the one that
/// began last is chosen, because it has done the least work. A worker with less than 1/32 of the largest worker's
/// memory is chosen only if there is no other.
std::optional<std::size_t> choose_victim(std::span<const Candidate> candidates);

}  // namespace pharos::node
