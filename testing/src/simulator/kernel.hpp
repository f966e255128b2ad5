#pragma once

#include <sys/types.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/network.hpp"
#include "simulator/process.hpp"
#include "simulator/world.hpp"

namespace pharos::simulator {

/// The simulated processes by number, with their parents. When a process ends, its parent is told. If the parent has
/// ended, the nearest ancestor that is alive is told, because a node's process adopts orphans.
class Kernel {
 public:
  Kernel(World& world, Network& network) : world_{world}, network_{network} {}
  Kernel(Kernel&&) = delete;
  ~Kernel();

  World& world() { return world_; }
  Network& network() { return network_; }

  using Compose = async::UniqueFunction<std::unique_ptr<Program>(Process&)>;
  /// Starts a process. After `loading` it calls `compose` to make its program. The process's name is `what` and its
  /// number.
  Process& start(const std::string& what, Process* parent, Duration loading, Compose compose);
  /// Kills the process as SIGKILL does. May be called from inside or outside of any process.
  void kill(pid_t process);

  /// The processes of this kind that are alive, in the order of their start.
  std::vector<Process*> alive(std::string_view what) const;

 private:
  static void tell_parent(const Process& child);

  World& world_;
  Network& network_;
  std::list<Process> processes_;
  std::map<pid_t, Process*> alive_;
  pid_t last_number_ = 100;
};

}  // namespace pharos::simulator
