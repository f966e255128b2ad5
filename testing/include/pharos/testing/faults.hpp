#pragma once

#include <chrono>
#include <cstdint>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos::testing {

class Cluster;

/// Faults that strike a cluster at moments, and in an order, that its seed draws. These are all that Pharos's own tests
/// use. Each number is how often that fault strikes at most: none strikes after `lasts` or when all programs have
/// ended.
struct Faults {
  std::uint32_t worker_kills = 0;     ///< a process of an actor, or of tasks, is killed
  std::uint32_t worker_stops = 0;     ///< such a process stands still for up to 80 ms
  std::uint32_t zygote_kills = 0;     ///< the process is killed from which a node forks workers
  std::uint32_t connection_cuts = 0;  ///< a connection between two machines breaks, and what is on its way is lost
  std::uint32_t node_stops = 0;       ///< a node's process stands still for up to 300 ms
  std::uint32_t head_restarts = 0;    ///< the head is killed, and starts again; needs ClusterOptions::keeps_records
  bool node_kill = false;             ///< the node of the second machine is killed, and with it its workers
  bool head_kill = false;             ///< the head is killed for good, and with it the cluster
  bool program_kill = false;          ///< a program is killed
  bool node_drain = false;            ///< the second machine is drained, as by `pharos drain`
  bool node_end = false;              ///< a program's node ends, as by `pharos stop`
  bool long_silence = false;          ///< once, longer than nodes may be silent: a node, or a whole machine, stands
                                      ///< still, or the head and a node do not hear each other
  /// Between machines, one call or reply in so many is lost, and its connection with it; 0 for none. This does not end
  /// with `lasts`.
  std::uint32_t lost_messages_one_in = 0;
  Duration lasts = std::chrono::milliseconds{150};  ///< from the injection on
};

}  // namespace pharos::testing
