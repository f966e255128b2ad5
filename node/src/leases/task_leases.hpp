#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/leases.hpp>
#include <pharos/wire/message.hpp>

#include "leases/elsewhere.hpp"
#include "leases/lease_book.hpp"
#include "leases/load_report.hpp"
#include "leases/recall_timer.hpp"
#include "node/clients.hpp"
#include "node/questions.hpp"
#include "node/site.hpp"
#include "workers/hand_over_line.hpp"
#include "workers/jobs.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// Leases of this node's workers, by callers here and elsewhere, and the requests that wait for them. A request that
/// this node cannot serve goes to the head, and one that waits here may be served elsewhere meanwhile. A request waits
/// without a limit. Carries out what the LeaseBook decides about tasks.
/// Failure: a caller gets kInvalidArgument for a demand that makes no sense, kOverloaded if it is to ask again after a
/// pause (too many wait, the node drains, the worker has just ended, or a worker asks at the limit of workers), the
/// error of Workers::start(), or the head's.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, and its timers use it: the executor
/// has to stop before the destructor, which answers nobody.
class TaskLeases {
 public:
  TaskLeases(Site& site, LeaseBook& book, Clients& clients, Questions& questions, Jobs& jobs, Workers& workers,
             HandOverLine& hand_overs);

  // ---- Requests and their ends

  /// A caller of this node asks for a worker.
  void request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request);
  /// The head asks for a worker, for a caller of another node. The head also gets the errors above, and kUnavailable if
  /// the node cannot run the task.
  void request_for_far(const wire::LeaseWorker& lease);
  /// A lessee gives a worker back. A worker that was broken, or told to end after its task, ends. Ignored if `lessee`
  /// does not have the worker.
  void take_back(const wire::ReturnLease& returned, CallerId lessee);
  /// Forgets the requests of these clients, without an answer. The caller also has to tell the LeaseBook that the
  /// lessees have ended.
  void forget_if(const std::function<bool(const Client&)>& of);
  /// The head says that a caller of another node has ended.
  void end_far_lessee(CallerId caller);
  /// Another head has taken the place of the one before. Callers of other nodes that asked by way of the earlier head
  /// will ask again, so their requests leave the line.
  void drop_far_requests();
  /// The node takes no more tasks. Tasks that run may end. Tasks queued behind them go back to their callers, and the
  /// leases are returned. Callers that wait for a lease are refused with kOverloaded; they ask again, and are served
  /// elsewhere.
  void drain();

  // ---- Requests that may be served elsewhere

  /// Another node has granted a request that also waits here. Returns true if a caller of this node waits for it, and
  /// FarLeases has to connect to the worker.
  bool take_from_elsewhere(const wire::LeaseGranted& granted);
  /// Connects a caller of this node with a worker here, which it has leased. Returns false if the caller was refused at
  /// once, and the lease is to be given back.
  bool hand_over(WorkerId worker, const Asked& asked);
  /// The head has found no room for the request elsewhere.
  void found_no_room(scheduler::LeaseRequestId request) { elsewhere_.found_none(request); }
  /// Nobody waits for the head's answer any more.
  void forget_question(const Asked& asked);

  // ---- What the book decides

  void grant(const scheduler::Grant& grant);
  void start(const scheduler::StartWorker& start);
  void refuse(const scheduler::Refuse& refused);
  void recall(const scheduler::Recall& recalled);
  /// All effects are carried out.
  void settle();
  /// A worker is gone. Its lessee is told, directly or by way of the head.
  void end_worker(const Worker& worker, const std::string& reason);

  LoadReport& load() { return load_; }
  /// The number of requests that are not served yet, and of those for which the head is asked.
  std::size_t waiting() const { return requests_.size(); }
  std::size_t asked_elsewhere() const { return elsewhere_.asked(); }

 private:
  bool is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const;
  void wait_for_room(scheduler::LeaseRequestId request, const scheduler::Demand& demand);
  void ask_elsewhere(scheduler::LeaseRequestId request);
  bool leaves_line(scheduler::LeaseRequestId request);
  void give_back(WorkerId worker, CallerId lessee);
  async::Async<void> start_worker(std::shared_ptr<Job> job, scheduler::LeaseRequestId request,
                                  std::vector<std::string> gpus, scheduler::Environment environment);
  async::Async<void> end_idle_workers();

  Site& site_;
  LeaseBook& book_;
  Clients& clients_;
  Questions& questions_;
  Jobs& jobs_;
  Workers& workers_;
  HandOverLine& hand_overs_;
  std::unordered_map<scheduler::LeaseRequestId, Asked> requests_;
  Elsewhere elsewhere_;
  LoadReport load_;
  RecallTimer recalls_;
  bool ends_idle_workers_ = false;
  bool drains_ = false;
};

/// The names of these GPUs of a node, as in CUDA_VISIBLE_DEVICES. The machine must have all of them: an unknown index
/// throws std::out_of_range.
std::vector<std::string> names_of(const Machine& machine, const std::vector<scheduler::GpuShare>& gpus);

}  // namespace pharos::node
