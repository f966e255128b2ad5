#pragma once

#include <sys/types.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "network.hpp"
#include "process.hpp"
#include "world.hpp"

namespace pharos::simulator {

/// The simulated processes, by number, and whose children they are. The end of one is told to its parent; when that is
/// gone, to the parent's, as where each node's process takes orphans in.
class Kernel {
 public:
  Kernel(World& world, Network& network) : world_{world}, network_{network} {}
  Kernel(Kernel&&) = delete;
  ~Kernel();

  World& world() { return world_; }
  Network& network() { return network_; }

  using Compose = async::UniqueFunction<std::unique_ptr<Program>(Process&)>;
  /// A process that begins by composing its program, after that time. Named after what it is, and its number.
  Process& start(const std::string& what, Process* parent, Duration loading, Compose compose);
  /// As by SIGKILL, from wherever.
  void kill(pid_t process);

  /// Those of them that are alive, in the order of their start.
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
