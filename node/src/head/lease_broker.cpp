#include "head/lease_broker.hpp"

#include <unordered_set>
#include <utility>
#include <vector>

#include "head/patience.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {

void LeaseBroker::request(NodeId from, const wire::LeaseWorker& lease) {
  request(Wanting{from, lease, events_.now() + (lease.only_now ? Duration{} : patience_of(lease.demand))});
}

void LeaseBroker::request(const Wanting& wanting) {
  const NodeId from = wanting.from;
  const wire::LeaseWorker& lease = wanting.lease;
  if (!jobs_.admit(from, lease.asker)) return;
  const auto demand = checked(lease.demand);
  if (!demand) return events_.tell(from, wire::Refused{lease.asker.number, demand.error()});
  const auto spot = spot_for(*demand, lease, from);
  if (!spot && recovery_.is_under_way() && !lease.only_now) return recovery_.put_off(from, lease);
  if (!spot) return want(wanting, spot.error());
  if (!*spot) return wanting_.push_back(wanting);
  const auto [node, bundle] = **spot;
  jobs_.show(node, lease.asker.job);
  const std::uint64_t number = numbers_.next();
  requests_.emplace(number, Lease{node, from, lease.asker, lease.demand, lease.nested, lease.only_now});
  tasks_.count_leases(node, 1);
  events_.tell(node,
               wire::LeaseWorker{
                   lease.demand, {lease.asker.job, lease.asker.caller, number}, lease.nested, lease.only_now, bundle});
}

/// Keeps the request until a node joins, or refuses it.
void LeaseBroker::want(Wanting wanting, const Error& why) {
  const Duration left = wanting.until - events_.now();
  if (left <= Duration{}) {
    const Duration waited = wanting.lease.only_now ? Duration{} : patience_of(wanting.lease.demand);
    return events_.tell(wanting.from, wire::Refused{wanting.lease.asker.number, waited_in_vain(why, waited)});
  }
  if (!std::exchange(wanting.has_timer, true)) events_.run_later(left, [this] { request_wanting(); });
  wanting_.push_back(std::move(wanting));
}

void LeaseBroker::request_wanting() {
  for (const Wanting& each : std::exchange(wanting_, {})) request(each);
}

Result<std::optional<GroupTable::Spot>> LeaseBroker::spot_for(const scheduler::Demand& demand,
                                                              const wire::LeaseWorker& lease, NodeId from) {
  if (lease.demand.group) {
    const auto but_not = lease.only_now ? std::optional{lease.bundle} : std::nullopt;
    PHAROS_TRY(const auto spot, groups_.find_spot(lease.demand, lease.asker.job, but_not));
    if (!spot && lease.only_now) return Error{ErrorCode::kOverloaded, "no other bundle has room for it now"};
    return spot;
  }
  if (!lease.only_now) {
    PHAROS_TRY(const NodeId node, tasks_.find_node(demand, preference_of(lease.demand, from), "a task"));
    return std::optional{GroupTable::Spot{node}};
  }
  const auto node = tasks_.take_room(demand, lease.demand.near, from);
  if (!node) return Error{ErrorCode::kOverloaded, "no other node has room for it now"};
  return std::optional{GroupTable::Spot{*node}};
}

// A request that is not known here any more has been ended at the worker's node, so nothing is left to do.
void LeaseBroker::grant(NodeId from, const wire::LeaseGranted& granted) {
  const auto asked = requests_.extract(granted.number);
  if (asked.empty()) return;
  Lease& lease = asked.mapped();
  if (granted.node != from) {  // the node has found room at another one
    tasks_.count_leases(from, -1);
    lease.at = granted.node;
  }
  if (!lease.asked_from) {
    tasks_.count_leases(lease.at, -1);
    return events_.tell(lease.at, wire::ReturnLease{granted.worker, lease.asker.caller});
  }
  if (!nodes_.contains(lease.at)) return request_again(lease);
  events_.tell(lease.asked_from,
               wire::LeaseGranted{lease.asker.number, granted.worker, lease.at, nodes_.address_of(lease.at)});
  leases_.insert_or_assign(granted.worker, lease);
}

void LeaseBroker::refuse(wire::Refused refused) {
  const auto asked = requests_.extract(refused.number);
  if (asked.empty()) return;
  tasks_.count_leases(asked.mapped().at, -1);
  events_.tell(asked.mapped().asked_from, wire::Refused{asked.mapped().asker.number, std::move(refused.why)});
}

void LeaseBroker::note_worker_ended(const wire::WorkerEnded& ended) {
  borrowed_.erase(ended.worker);  // the worker's node may not have reported this lease yet
  const auto found = leases_.extract(ended.worker);
  if (found.empty()) return;
  tasks_.count_leases(found.mapped().at, -1);
  events_.tell(found.mapped().asked_from, ended);
}

void LeaseBroker::end(WorkerId worker, bool broken, bool kill) {
  borrowed_.erase(worker);  // the worker's node may not have reported this lease yet
  const auto found = leases_.extract(worker);
  if (found.empty()) return;
  const Lease& lease = found.mapped();
  tasks_.count_leases(lease.at, -1);
  events_.tell(lease.at, wire::ReturnLease{worker, lease.asker.caller, broken, kill});
}

void LeaseBroker::recall(const wire::RecallLeases& recalled) {
  // One caller has leased all of these workers, so the first lease that is known tells where the message goes.
  for (const WorkerId worker : recalled.workers) {
    const auto lease = leases_.find(worker);
    if (lease != leases_.end() && lease->second.asked_from) {
      return events_.tell(lease->second.asked_from, recalled);
    }
  }
}

void LeaseBroker::end_caller(CallerId caller) {
  std::unordered_set<NodeId> nodes;
  const auto ends = [&](const auto& entry) {
    if (entry.second.asker.caller != caller) return false;
    tasks_.count_leases(entry.second.at, -1);
    nodes.insert(entry.second.at);
    return true;
  };
  std::erase_if(requests_, ends);
  std::erase_if(leases_, ends);
  std::erase_if(wanting_, [caller](const Wanting& each) { return each.lease.asker.caller == caller; });
  for (const NodeId node : nodes) events_.tell(node, wire::EndCaller{caller});
}

void LeaseBroker::end_job(JobId job) {
  const auto ends = [&](const auto& entry) {
    if (entry.second.asker.job != job) return false;
    tasks_.count_leases(entry.second.at, -1);
    return true;
  };
  std::erase_if(requests_, ends);
  std::erase_if(leases_, ends);
  std::erase_if(wanting_, [job](const Wanting& each) { return each.lease.asker.job == job; });
}

void LeaseBroker::lose_node(NodeId node) {
  std::erase_if(borrowed_, [node](const auto& entry) { return entry.second == node; });
  std::erase_if(wanting_, [node](const Wanting& each) { return each.from == node; });
  std::vector<Lease> again;
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.at == node && entry.second.asked_from) again.push_back(entry.second);
    return entry.second.at == node;
  });
  std::erase_if(leases_, [&](const auto& entry) {
    if (entry.second.at != node) return false;
    events_.tell(entry.second.asked_from, wire::WorkerEnded{entry.first, "its node was lost"});
    return true;
  });
  // The lost node may have asked for callers of other nodes. Nobody waits for these answers any more.
  for (auto& [number, lease] : requests_) {
    if (lease.asked_from == node) lease.asked_from = {};
  }
  std::vector<WorkerId> unused;
  for (const auto& [worker, lease] : leases_) {
    if (lease.asked_from == node) unused.push_back(worker);
  }
  for (const WorkerId worker : unused) end(worker, false);
  for (const Lease& lease : again) request_again(lease);
}

void LeaseBroker::request_again(const Lease& lease) {
  request(lease.asked_from, wire::LeaseWorker{lease.demand, lease.asker, lease.nested, lease.only_now});
}

void LeaseBroker::take_report(NodeId from, const wire::Report& report) {
  for (const auto& [worker, caller, job] : report.lent) {
    if (!jobs_.contains(job)) continue;
    leases_.insert_or_assign(worker, Lease{from, {}, {job, caller, 0}, {}, false, false});
    tasks_.count_leases(from, 1);
  }
  for (const WorkerId worker : report.borrowed) borrowed_.insert_or_assign(worker, from);
}

void LeaseBroker::settle(const std::function<bool(CallerId)>& is_there) {
  std::vector<WorkerId> unknown;
  for (auto& [worker, lease] : leases_) {
    if (lease.asked_from) continue;
    const auto borrower = borrowed_.extract(worker);
    if (borrower.empty() || !is_there(lease.asker.caller)) {
      unknown.push_back(worker);
    } else {
      lease.asked_from = borrower.mapped();
    }
  }
  for (const WorkerId worker : unknown) end(worker, true);
  for (const auto& [worker, borrower] : std::exchange(borrowed_, {})) {
    if (!leases_.contains(worker)) events_.tell(borrower, wire::WorkerEnded{worker, "its node was lost"});
  }
}

}  // namespace pharos::node::head
