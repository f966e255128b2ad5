#pragma once

#include <cstdint>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/testing/faults.hpp>

#include "simulator/cluster.hpp"

namespace pharos::simulator {

/// Draws how often each fault may strike. A long silence is not drawn.
testing::Faults draw_faults(Cluster& cluster);

/// Injects these faults into a cluster, when and where its seed decides.
class FaultInjector {
 public:
  FaultInjector(Cluster& cluster, const testing::Faults& faults);
  FaultInjector(FaultInjector&&) = delete;

  /// The time from which there are no more faults.
  TimePoint over() const { return over_; }

 private:
  struct Kind {
    std::uint32_t left;               ///< how often it may still strike
    bool (FaultInjector::*strike)();  ///< returns whether there was something to strike
  };

  void next();
  void strike();
  void silence_one(Duration time);
  bool kill_worker();
  bool stop_worker();
  bool kill_zygote();
  bool cut_connection();
  bool stop_node();
  bool kill_head();
  bool kill_node();
  bool kill_program();
  bool drain_node();
  bool end_node();
  /// Returns one of the processes of this kind that are alive; null if there is none.
  Process* one_of(const std::vector<Process*>& processes);
  void stop_for(Process& process, Duration time);
  Lots& lots() { return cluster_.lots(); }

  Cluster& cluster_;
  std::vector<Kind> kinds_;
  const TimePoint until_;
  Duration gap_max_;  // between two faults; so long that on average all strike by `until_`
  TimePoint over_;
};

}  // namespace pharos::simulator
