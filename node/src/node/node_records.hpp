#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/node.hpp"

namespace pharos::node {

constexpr auto kStopTime = std::chrono::seconds{5};  // for destructors, when a worker is told to end
constexpr int kZygoteRestartsMax = 3;                // in a row without a zygote that lives for long

/// A running program, as this node knows it.
struct Node::Job {
  JobId id;
  CallerId caller;
  std::shared_ptr<net::Peer> driver;  // null: it is at another node, or has ended and detached actors go on
  std::deque<std::size_t> unshown;    // bytes of each Output that the driver was sent and has not shown
  std::size_t unshown_bytes = 0;      // their sum
  wire::RegisterJob program;
  Fd executable;
  bool coming = false;          // the executable is being fetched, which may take long
  bool loaded = false;          // the zygote has loaded the program, and it is the right build
  std::optional<Error> broken;  // why the program cannot run here
  std::string warning;          // why its workers start slowly, if they do

  std::shared_ptr<net::Peer> zygote;  // null while there is no zygote
  pid_t zygote_pid = 0;
  int zygote_restarts = 0;
  TimePoint zygote_since;
  async::Completion<wire::ZygoteReady> zygote_ready;
  bool asks_to_stop = false;  // the driver has asked to stop the job
  async::Completion<void> stopped_everywhere;
  bool stopping = false;  // its workers on this node are being ended
  bool stopped = false;   // nothing of it runs on this node any more
  bool ended = false;
};

/// A worker process, from the request to fork it until its end has been reported.
struct Node::Worker {
  WorkerId id;
  std::shared_ptr<Job> job;
  ActorId actor;  // unset: it runs tasks
  std::uint32_t incarnation = 0;
  std::string label;
  pid_t pid = 0;
  Fd handle;  // pidfd
  std::shared_ptr<net::Peer> control;
  std::shared_ptr<net::Peer> user;  // the caller that has leased it or was the last to do so; may be a worker
  CallerId far_user;                // the same for a caller at another node
  std::shared_ptr<Host::Output> output;
  std::shared_ptr<Host::Output> error_output;
  async::Completion<int> reaped;
  async::Completion<void> process_gone;  // the same, for the watch that waits for its memory
  bool crashed = false;                  // it crashed, and its zygote finds out where
  async::Completion<wire::WorkerCrashed> crash;
  async::Completion<void> concluded;
  scheduler::ReservationId reservation;  // resources of its actor
  BundleKey bundle;                      // the bundle that those are a part of; unset: its actor is in no group
  std::vector<std::string> gpus;         // the GPUs that it sees
  wire::WorkerResources holding;         // resources of the tasks of its far user
  std::string killed_because;            // a better reason than how its process ended; empty: not known
  bool constructed = false;              // its actor is constructed
  bool exclusive = false;                // it ends by itself if it does not hear from the head
  bool told_to_end = false;              // it was told to end because its node drains
  bool out_of_memory = false;            // it was killed because memory was short
  bool may_restart = false;              // its actor has a restart left after this incarnation
  TimePoint since;                       // when its fork was asked for
  bool gone = false;                     // it was killed from here, or is to be once its process is known
  bool failed_to_start = false;          // its end is reported by the coroutine that was starting it
};

struct Node::Inspection {
  wire::Inspected answer;                     // with the workers of this node
  std::vector<wire::InspectedWorker> actors;  // the actors, as the head knows them
  std::size_t missing = 1;                    // answers that have not come: the head's, and one of each worker
  async::Completion<void> done;

  void take_one() {
    if (--missing == 0) done.complete();
  }
};

/// Says for users how a process ended. `status` is as waitpid gives it, or a negative errno if it could not be started.
std::string describe_end(int status);
/// The CPUs of these resources, rounded up.
inline std::uint32_t whole_cpus(const scheduler::Resources& resources) {
  return static_cast<std::uint32_t>((resources.cpus() + scheduler::Resources::kWhole - 1) /
                                    scheduler::Resources::kWhole);
}

}  // namespace pharos::node
