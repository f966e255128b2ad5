// Leases of one node's workers to callers of another node.

#include <unordered_set>
#include <utility>
#include <vector>

#include "head/head.hpp"
#include "node/demands.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kOthersMax = 16;  // nodes that are named as sources of an executable

}  // namespace

bool Head::on_lease_message(NodeId from, wire::Message& message) {
  if (const auto* const lease = std::get_if<wire::LeaseWorker>(&message)) {
    lease_worker(from, *lease);
  } else if (const auto* const granted = std::get_if<wire::LeaseGranted>(&message)) {
    grant_lease(from, *granted);
  } else if (auto* const refused = std::get_if<wire::Refused>(&message)) {
    refuse_lease(std::move(*refused));
  } else if (const auto* const returned = std::get_if<wire::ReturnLease>(&message)) {
    end_lease(returned->worker, returned->broken, nullptr);
  } else if (const auto* const ended = std::get_if<wire::WorkerEnded>(&message)) {
    end_lease(ended->worker, false, ended);
  } else if (const auto* const recalled = std::get_if<wire::RecallLeases>(&message)) {
    recall_leases(*recalled);
  } else {
    return false;
  }
  return true;
}

// A node has to know a program before it is asked to run it.
void Head::show_job(NodeId node, JobId job) {
  Job& shown = jobs_.at(job);
  if (shown.known_at.contains(node)) return;
  wire::AddJob add{job, shown.program, shown.node, {}};
  for (const NodeId other : shown.known_at) {
    if (other != shown.node && add.others.size() < kOthersMax) add.others.push_back(other);
  }
  shown.known_at.insert(node);
  tell(node, std::move(add));
}

void Head::lease_worker(NodeId from, const wire::LeaseWorker& lease) {
  // With `only_now` the asking node may ask for a caller of another node.
  if (!lease.only_now) note_caller(lease.asker, from);
  if (!program_goes_on(from, lease.asker)) return;
  const auto demand = checked(lease.demand);
  const auto node = demand ? node_for(*demand, lease, from) : demand.error();
  if (!node && recovering_ && !lease.only_now) return put_off_.emplace_back(from, lease), void();
  if (!node) return tell(from, wire::Refused{lease.asker.number, node.error()});
  show_job(*node, lease.asker.job);
  const std::uint64_t number = ++last_request_;
  lease_requests_.emplace(number, Lease{*node, from, lease.asker, lease.demand, lease.nested, lease.only_now});
  placement_.count_leases(*node, 1);
  tell(*node,
       wire::LeaseWorker{lease.demand, {lease.asker.job, lease.asker.caller, number}, lease.nested, lease.only_now});
}

Result<NodeId> Head::node_for(const scheduler::Demand& demand, const wire::LeaseWorker& lease, NodeId from) {
  if (!lease.only_now) return placement_.find_node(demand, preference_of(lease.demand, from), "a task");
  const auto node = placement_.take_room(demand, lease.demand.near, from);
  if (!node) return Error{ErrorCode::kOverloaded, "no other node has room for it now"};
  return *node;
}

// A request that is not known here any more has been ended at the worker's node, so nothing is left to do.
void Head::grant_lease(NodeId from, const wire::LeaseGranted& granted) {
  const auto asked = lease_requests_.extract(granted.number);
  if (asked.empty()) return;
  Lease& lease = asked.mapped();
  if (granted.node != from) {  // the node has found room at another one
    placement_.count_leases(from, -1);
    lease.at = granted.node;
  }
  if (!lease.asked_from) {
    placement_.count_leases(lease.at, -1);
    return tell(lease.at, wire::ReturnLease{granted.worker, lease.asker.caller});
  }
  if (!knows(lease.at)) return lease_again(lease);
  tell(lease.asked_from, wire::LeaseGranted{lease.asker.number, granted.worker, lease.at, address_of(lease.at)});
  leases_.insert_or_assign(granted.worker, lease);
}

void Head::refuse_lease(wire::Refused refused) {
  const auto asked = lease_requests_.extract(refused.number);
  if (asked.empty()) return;
  placement_.count_leases(asked.mapped().at, -1);
  tell(asked.mapped().asked_from, wire::Refused{asked.mapped().asker.number, std::move(refused.why)});
}

/// The caller has returned the worker; or with `ended` the worker has ended, which the caller is told.
void Head::end_lease(WorkerId worker, bool broken, const wire::WorkerEnded* ended) {
  borrowed_.erase(worker);  // the worker's node may not have reported this lease yet
  const auto found = leases_.extract(worker);
  if (found.empty()) return;
  const Lease& lease = found.mapped();
  placement_.count_leases(lease.at, -1);
  if (ended != nullptr) {
    tell(lease.asked_from, *ended);
  } else {
    tell(lease.at, wire::ReturnLease{worker, lease.asker.caller, broken});
  }
}

// All of these workers are leased by one caller, so the first lease that is known tells where the message goes. If the
// message is lost, the worker's node says it again.
void Head::recall_leases(const wire::RecallLeases& recalled) {
  for (const WorkerId worker : recalled.workers) {
    const auto lease = leases_.find(worker);
    if (lease != leases_.end() && lease->second.asked_from) return tell(lease->second.asked_from, recalled);
  }
}

void Head::end_leases_of(CallerId caller) {
  std::unordered_set<NodeId> nodes;
  const auto ends = [&](const auto& entry) {
    if (entry.second.asker.caller != caller) return false;
    placement_.count_leases(entry.second.at, -1);
    nodes.insert(entry.second.at);
    return true;
  };
  std::erase_if(lease_requests_, ends);
  std::erase_if(leases_, ends);
  for (const NodeId node : nodes) tell(node, wire::EndCaller{caller});
}

// Requests that waited at the lost node are made again at another one.
void Head::lose_leases_at(NodeId node) {
  std::vector<Lease> again;
  std::erase_if(lease_requests_, [&](const auto& entry) {
    if (entry.second.at == node && entry.second.asked_from) again.push_back(entry.second);
    return entry.second.at == node;
  });
  std::erase_if(leases_, [&](const auto& entry) {
    if (entry.second.at != node) return false;
    tell(entry.second.asked_from, wire::WorkerEnded{entry.first, "its node was lost"});
    return true;
  });
  // The lost node may have asked for callers of other nodes. Nobody waits for these answers any more.
  for (auto& [number, lease] : lease_requests_) {
    if (lease.asked_from == node) lease.asked_from = {};
  }
  std::vector<WorkerId> unused;
  for (const auto& [worker, lease] : leases_) {
    if (lease.asked_from == node) unused.push_back(worker);
  }
  for (const WorkerId worker : unused) end_lease(worker, false, nullptr);
  for (const Lease& lease : again) lease_again(lease);
}

void Head::lease_again(const Lease& lease) {
  lease_worker(lease.asked_from, wire::LeaseWorker{lease.demand, lease.asker, lease.nested, lease.only_now});
}

}  // namespace pharos::node
