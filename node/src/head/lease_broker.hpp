#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/task_nodes.hpp>
#include <pharos/wire/message.hpp>

#include "head/events.hpp"
#include "head/group_table.hpp"
#include "head/job_table.hpp"
#include "head/node_table.hpp"
#include "head/recovery.hpp"
#include "head/request_numbers.hpp"

namespace pharos::node::head {

/// Leases of one node's workers to callers of another node. The head chooses the worker's node, asks it, and passes its
/// answer on to the caller's node. It remembers each lease until the worker is returned or has ended, until its caller
/// or job is over, or until one of the two nodes is lost: the caller's node then hears that the worker has ended, or
/// the worker's node gets it back.
/// Messages about unknown requests and workers are ignored. Owned by Head; on its strand. The destructor tells nobody.
class LeaseBroker {
 public:
  LeaseBroker(Events& events, scheduler::Fleet& fleet, JobTable& jobs, const NodeTable& nodes, GroupTable& groups,
              Recovery& recovery, RequestNumbers& numbers)
      : events_{events},
        tasks_{fleet},
        jobs_{jobs},
        nodes_{nodes},
        groups_{groups},
        recovery_{recovery},
        numbers_{numbers} {}

  /// The node says what it has given to tasks.
  void note_tasks(NodeId node, const wire::Amounts& tasks) { tasks_.note_tasks(node, scheduler::Resources{tasks}); }
  /// The caller's node asks for a worker at another node. The answer comes without a time limit: LeaseGranted, or
  /// Refused by the other node, or by the head: kRuntimeStopped, kInvalidArgument if no node could run it, kOverloaded
  /// if it has to be had now and no other node has room. In a recovery a request that finds no node is put off; else it
  /// waits for nodes that join, as its demand says. A task of a group waits until a bundle of the group has a place.
  void request(NodeId from, const wire::LeaseWorker& lease);
  /// A node has joined, or a group has changed: asks again for the requests that wait for one.
  void request_wanting();
  /// The worker's node answers a request.
  void grant(NodeId from, const wire::LeaseGranted& granted);
  void refuse(wire::Refused refused);
  /// The caller's node returns the worker.
  void take_back(const wire::ReturnLease& returned) { end(returned.worker, returned.broken, returned.kill); }
  /// The worker's node says that the worker has ended.
  void note_worker_ended(const wire::WorkerEnded& ended);
  /// The worker's node wants workers back, all from one caller. If the message is lost, the node repeats it.
  void recall(const wire::RecallLeases& recalled);

  /// The caller has ended: the workers' nodes are told, and end its leases and requests.
  void end_caller(CallerId caller);
  /// Forgets what the job has leased; the nodes end the job by themselves.
  void end_job(JobId job);
  /// Requests that waited at the lost node are made again at another one. Requests of callers there are forgotten once
  /// they are answered, and a worker that was granted is returned.
  void lose_node(NodeId node);

  void take_report(NodeId from, const wire::Report& report);
  /// All nodes have reported: keeps the leases that both nodes have reported, and ends the others.
  void settle(const std::function<bool(CallerId)>& is_there);

  std::size_t requested() const { return requests_.size() + wanting_.size(); }
  std::size_t granted() const { return leases_.size(); }

 private:
  /// A lease that is requested or granted.
  struct Lease {
    NodeId at;          // the worker's node
    NodeId asked_from;  // the caller's node; unset: it was lost, or has not reported yet
    wire::Asker asker;
    wire::Demand demand;
    bool nested;
    bool only_now;
  };

  /// A request that no node could meet when it came.
  struct Wanting {
    NodeId from;
    wire::LeaseWorker lease;
    TimePoint until;
    bool has_timer = false;
  };

  void request(const Wanting& wanting);
  void want(Wanting wanting, const Error& why);
  /// Where a worker may run; nullopt: in a bundle that has no place at the moment.
  Result<std::optional<GroupTable::Spot>> spot_for(const scheduler::Demand& demand, const wire::LeaseWorker& lease,
                                                   NodeId from);
  void request_again(const Lease& lease);
  void end(WorkerId worker, bool broken, bool kill = false);

  Events& events_;
  scheduler::TaskNodes tasks_;
  JobTable& jobs_;
  const NodeTable& nodes_;
  GroupTable& groups_;
  Recovery& recovery_;
  RequestNumbers& numbers_;
  std::unordered_map<std::uint64_t, Lease> requests_;  // by the number of the request to the worker's node
  std::unordered_map<WorkerId, Lease> leases_;
  std::vector<Wanting> wanting_;
  // In a recovery: leased workers, and the node that says that its caller has leased them.
  std::unordered_map<WorkerId, NodeId> borrowed_;
};

}  // namespace pharos::node::head
