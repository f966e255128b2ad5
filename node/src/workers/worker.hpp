#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/completion.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/wire/message.hpp>

#include "node/host.hpp"
#include "workers/job.hpp"
#include "workers/lifecycles.hpp"

namespace pharos::node {

constexpr auto kStopTime = std::chrono::seconds{5};  ///< for destructors, when a worker is told to end

// Parts of Worker, on the node's strand. Workers and Incarnations change them.

/// What a worker runs.
struct Incarnation {
  ActorId actor{};  ///< unset: the worker runs tasks
  std::uint32_t number = 0;
  bool constructed = false;
  bool exclusive = false;                  ///< the process ends by itself if it does not hear from the head
  bool may_restart = false;                ///< the actor has a restart left after this incarnation
  scheduler::ReservationId reservation{};  ///< resources of the actor
};

/// The process of a worker. The destructor closes the pidfd, and ends no process.
struct Process {
  /// How it has ended.
  struct End {
    int status = 0;        ///< as waitpid() gives it
    bool crashed = false;  ///< its zygote finds out where, and completes `crash`
  };

  pid_t pid = 0;
  Fd handle{};        ///< pidfd
  TimePoint since{};  ///< when its fork was asked for
  WorkerLife life{WorkerState::kForking};
  std::optional<End> end{};  ///< set once it has ended
  async::Completion<int> reaped{};
  async::Completion<void> gone{};  ///< the same, for the memory guard, which waits for its memory
  async::Completion<wire::WorkerCrashed> crash{};
  std::shared_ptr<Host::Output> output{};
  std::shared_ptr<Host::Output> error_output{};

  /// Whether it was killed from here, or is to be killed once it is known.
  bool is_killed() const { return life.state() == WorkerState::kKilled || life.state() == WorkerState::kFailed; }
  bool has_crashed() const { return end && end->crashed; }
};

/// The caller that has leased a worker or was the last to do so. Either it is at this node or at another one.
struct LeasedTo {
  std::shared_ptr<net::Peer> user{};  ///< a driver or a worker of this node
  CallerId far_user{};
  wire::WorkerResources holding{};  ///< resources of the tasks of a far user
};

/// A worker, from the request to fork it until its end has been reported. Owned by Workers, and shared with coroutines
/// and connections, which may keep it longer: Workers::find() says whether it is still here. On the node's strand.
struct Worker {
  WorkerId id;
  std::shared_ptr<Job> job;
  std::shared_ptr<Zygote> zygote;  ///< of which it is a fork
  std::string label;
  std::vector<std::string> gpus;  ///< the GPUs that it sees
  Incarnation incarnation{};
  Process process{};
  std::shared_ptr<net::Peer> control{};  ///< null until it has proved itself
  LeasedTo leased_to{};
  std::string killed_for_memory{};  ///< why it was killed, if that was because memory was short
  async::Completion<void> concluded{};
};

}  // namespace pharos::node
