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

#include "node.hpp"

namespace pharos::node {

constexpr auto kStopTime = std::chrono::seconds{5};  // for destructors, when all is told to stop
constexpr int kZygoteRestartsMax = 3;                // without one that lives for long

struct Node::Job {
  JobId id;
  CallerId caller;
  std::shared_ptr<net::Peer> driver;  // null: at another node, or it has ended, and detached actors go on
  std::deque<std::size_t> unshown;    // bytes of each Output that it has, and has not shown
  std::size_t unshown_bytes = 0;      // of all
  wire::RegisterJob program;
  Fd executable;
  bool coming = false;          // the executable; that may take its time
  bool loaded = false;          // its build has been looked at
  std::optional<Error> broken;  // why it cannot be run here
  std::string warning;          // why its workers start slowly, if they do

  std::shared_ptr<net::Peer> zygote;  // null while there is none
  pid_t zygote_pid = 0;
  int zygote_restarts = 0;
  TimePoint zygote_since;
  async::Completion<wire::ZygoteReady> zygote_ready;
  bool asks_to_stop = false;  // its driver does
  async::Completion<void> stopped_everywhere;
  bool stopping = false;  // here
  bool stopped = false;   // nothing of it runs here any more
  bool ended = false;
};

struct Node::Worker {
  WorkerId id;
  std::shared_ptr<Job> job;
  ActorId actor;  // none: runs tasks
  std::uint32_t incarnation = 0;
  std::string label;
  pid_t pid = 0;
  Fd handle;  // pidfd
  std::shared_ptr<net::Peer> control;
  std::shared_ptr<net::Peer> user;  // who has leased it, or was the last to: a worker perhaps, or itself
  CallerId far_user;                // the same, at another node
  std::shared_ptr<Host::Output> output;
  std::shared_ptr<Host::Output> error_output;
  async::Completion<int> reaped;
  async::Completion<void> process_gone;  // the same, for whoever waits for its memory
  bool crashed = false;                  // its zygote finds out where
  async::Completion<wire::WorkerCrashed> crash;
  async::Completion<void> concluded;
  scheduler::ReservationId reservation;  // of an actor
  BundleKey bundle;                      // that it has a part of; of no group: none
  std::vector<std::string> gpus;         // that it sees
  wire::Holding holding;                 // of the tasks of its far user
  std::string killed_because;            // what is known better than how its process ended
  bool constructed = false;              // the actor
  bool exclusive = false;                // ends when it does not hear from the head
  bool told_to_end = false;              // its node drains
  bool out_of_memory = false;            // that is why
  bool may_restart = false;              // the actor, after this incarnation
  TimePoint since;                       // there is a worker
  bool gone = false;
  bool failed_to_start = false;  // whoever started it says so
};

struct Node::Inspection {
  wire::Inspected answer;                     // with the workers here
  std::vector<wire::InspectedWorker> actors;  // as the head knows them
  std::size_t missing = 1;                    // answers: the head's, and the workers'
  async::Completion<void> done;

  void take_one() {
    if (--missing == 0) done.complete();
  }
};

/// How a process ended, for people.
std::string describe_end(int status);
/// Its CPUs, rounded up.
inline std::uint32_t whole_cpus(const scheduler::Resources& resources) {
  return static_cast<std::uint32_t>((resources.cpus() + scheduler::Resources::kWhole - 1) /
                                    scheduler::Resources::kWhole);
}

}  // namespace pharos::node
