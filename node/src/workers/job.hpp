#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <pharos/async/completion.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/scheduler/environment.hpp>
#include <pharos/wire/message.hpp>

#include "workers/lifecycles.hpp"

namespace pharos::node {

/// A zygote of a job: a process of the program, stopped before `main`, from which workers are forked. A job has one,
/// and another one for each environment of its tasks and actors. Zygotes changes it. Its destructor ends no process.
struct Zygote {
  static constexpr int kRestartsMax = 3;  ///< in a row without a zygote that lives for long

  scheduler::Environment environment{};  ///< beside the program's own; empty in the job's first zygote
  bool loaded = false;                   ///< it has loaded the program, and is the right build
  std::optional<Error> broken{};         ///< why it cannot be loaded
  TimePoint used{};                      ///< when a worker was last asked for

  std::shared_ptr<net::Peer> peer{};  ///< null while there is no zygote
  pid_t pid = 0;
  int restarts = 0;
  TimePoint since{};
  async::Completion<wire::ZygoteReady> ready{};
};

/// The output that a driver was sent and has not shown. A value, in Job.
class Unshown {
 public:
  void add(std::size_t bytes) {
    sizes_.push_back(bytes);
    bytes_ += bytes;
  }
  /// The driver has shown the oldest of it. Ignored if there is none.
  void take_one() {
    if (sizes_.empty()) return;
    bytes_ -= sizes_.front();
    sizes_.pop_front();
  }
  void clear() { *this = {}; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::deque<std::size_t> sizes_;  // bytes of each Output message, the oldest first
  std::size_t bytes_ = 0;
};

/// A running program, as this node knows it. Owned by Jobs until the job is over, and shared with its workers, its
/// connections and coroutines, for which ended() is true after that. On the node's strand. The destructor closes the
/// executable.
struct Job {
  JobId id;
  CallerId caller;
  std::shared_ptr<net::Peer> driver;  ///< null: it is at another node, or has ended and detached actors go on
  Unshown unshown{};
  wire::RegisterJob program;
  Fd executable;
  std::string own_folder{};  ///< a folder of this job alone, which Jobs removes; empty: it has none
  ProgramLife program_life{ProgramState::kLoading};
  std::optional<Error> broken{};  ///< why the program cannot run here
  std::string warning{};          ///< why its workers start slowly, if they do
  Zygote zygote{};
  std::map<scheduler::Environment, std::shared_ptr<Zygote>> others{};  ///< the zygotes of other environments
  JobLife life{JobState::kRunning};
  async::Completion<void> stopped_everywhere{};

  bool ended() const { return life.state() == JobState::kEnded; }
  bool loaded() const { return program_life.state() == ProgramState::kLoaded; }
};

}  // namespace pharos::node
