#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// Leases of workers for tasks. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Caller to node, answered by WorkerReady. Also node to head, and head to the node that it chooses, answered by
/// LeaseGranted or Refused.
struct LeaseWorker {
  Demand demand;
  Asker asker{};
  bool nested = false;    ///< the caller is itself a worker; its node fills this in
  bool only_now = false;  ///< between nodes: refused with kOverloaded unless there is room at this moment
  /// If the demand names a group: from the head, the bundle that it has chosen; to the head with `only_now`, the bundle
  /// where the request waits.
  std::uint32_t bundle = 0;
};
/// Caller to node; for a worker of another node also to the head, and on to that node.
struct ReturnLease {
  WorkerId worker;
  CallerId caller{};    ///< the caller's node fills this in
  bool broken = false;  ///< the caller's connection to the worker broke, so the result of a running task is lost
  bool kill = false;    ///< the task that runs was cancelled by force: the worker is killed
};
/// Node to caller, by way of the head if the caller is at another node.
/// Other callers wait: the caller must return `count` of these workers, those whose tasks end first.
struct RecallLeases {
  std::vector<WorkerId> workers;  ///< all of one node, and leased by one caller
  std::uint32_t count = 0;
};
/// Node to head, and head to the node that asked: answers LeaseWorker.
struct LeaseGranted {
  std::uint64_t number = 0;
  WorkerId worker;
  NodeId node;
  std::string address;  ///< like ActorAlive::address
};
/// Node to caller, by way of the head if the caller is at another node: a leased worker has ended.
struct WorkerEnded {
  WorkerId worker;
  std::string reason;
  bool out_of_memory = false;  ///< the worker was killed because its node had too little memory
};
/// A number of workers for which tasks wait at a node, each with these resources.
struct WaitingTasks {
  Amounts amounts{};
  std::uint32_t workers = 0;
  friend bool operator==(const WaitingTasks&, const WaitingTasks&) = default;
};
/// Node to head.
/// The resources that tasks use at a node and wait for. A node sends it when it has changed.
struct NodeLoad {
  Amounts tasks{};                      ///< resources that tasks use
  std::vector<WaitingTasks> waiting{};  ///< the longest queues first
  friend bool operator==(const NodeLoad&, const NodeLoad&) = default;
};

}  // namespace pharos::wire
