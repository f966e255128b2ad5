#pragma once

#include <cstdint>

#include <pharos/base/clock.hpp>

#include "cluster.hpp"

namespace pharos::simulator {

/// What befalls a cluster until then, as its seed draws it: processes are killed, stopped and started again,
/// connections cut, nodes told to go.
class Faults {
 public:
  Faults(Cluster& cluster, TimePoint until);
  Faults(Faults&&) = delete;

 private:
  void next();
  void strike();
  void stop_for_a_while(Process& process, Duration longest);
  Lots& lots() { return cluster_.lots(); }

  Cluster& cluster_;
  const TimePoint until_;
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
};

}  // namespace pharos::simulator
