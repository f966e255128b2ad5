#pragma once

#include <cstdint>

#include <pharos/base/clock.hpp>

#include "cluster.hpp"

namespace pharos::simulator {

/// What befalls a cluster until then, as its seed draws it: processes are killed, stopped and started again,
/// connections cut, nodes told to go.
class Faults {
 public:
  /// `one_lasts`: for longer than nodes may be silent, beside all the others.
  Faults(Cluster& cluster, TimePoint until, bool one_lasts);
  Faults(Faults&&) = delete;

  /// From then on nothing befalls it.
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
  std::uint64_t stops_;  // of workers
  std::uint64_t node_stops_;
  std::uint64_t zygotes_;  // each is started again so often, and no more
  bool loses_node_;
  bool loses_head_;
  std::uint64_t head_restarts_;
  bool loses_driver_;
  bool drains_node_;
  bool ends_node_;
};

}  // namespace pharos::simulator
