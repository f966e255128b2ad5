#pragma once

#include <cstdint>

#include <pharos/base/clock.hpp>

#include "cluster.hpp"

namespace pharos::simulator {

/// Injects faults into a cluster until a given time, as its seed draws them: kills, stops and restarts processes, cuts
/// connections, and tells nodes to end.
class Faults {
 public:
  /// With `one_lasts` there is one more fault, which lasts longer than nodes may be silent.
  Faults(Cluster& cluster, TimePoint until, bool one_lasts);
  Faults(Faults&&) = delete;

  /// The time from which there are no more faults.
  TimePoint over() const { return over_; }

 private:
  void next();
  void strike();
  void begin_one_that_lasts(Duration time);
  void stop_for(Process& process, Duration time);
  Lots& lots() { return cluster_.lots(); }

  Cluster& cluster_;
  const TimePoint until_;
  TimePoint over_;
  std::uint64_t kills_;
  std::uint64_t cuts_;
  std::uint64_t stops_;  // stops of workers that are left
  std::uint64_t node_stops_;
  std::uint64_t zygotes_;  // kills of zygotes that are left; few, because a node restarts a zygote only a few times
  bool loses_node_;
  bool loses_head_;
  std::uint64_t head_restarts_;
  bool loses_driver_;
  bool drains_node_;
  bool ends_node_;
};

}  // namespace pharos::simulator
