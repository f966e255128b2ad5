#include <algorithm>
#include <chrono>

#include <pharos/async/sleep.hpp>

#include "demands.hpp"
#include "node_records.hpp"

namespace pharos::node {

using namespace std::chrono_literals;

namespace {
constexpr auto kLoadTime = 100ms;  // between two words of what tasks have
}

bool Node::on_lease_request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request) {
  const auto demand = checked(lease.demand);
  if (!demand) {
    client.peer->respond(request, demand.error());
    return true;
  }
  const bool nested = client.worker != nullptr;
  if (!is_for_here(*demand, lease.demand)) {  // another node's, or nobody's
    const std::uint64_t number = ++last_number_;
    const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, number}, nested};
    asked_.emplace(number, Asked{client, request, lease.demand.amounts, question});
    tell_head(question);
    return true;
  }
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, Asked{client, request, lease.demand.amounts});
  auto effects = leases_.request(id, {client.job->id, client.caller, nested}, demand->amounts);
  if (effects) {
    apply(*effects);
  } else {
    lease_requests_.erase(id);
    client.peer->respond(request, std::move(effects).error());
  }
  return true;
}

/// Nothing speaks for another node.
bool Node::is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const {
  const NodeId here = settings_.id;
  return !asked.spread && (!asked.near || asked.near == here) && (!demand.only || demand.only == here) &&
         leases_.could_fit(demand.amounts) &&
         std::all_of(demand.labels.begin(), demand.labels.end(),
                     [&](const scheduler::LabelRule& rule) { return rule.holds_for(settings_.machine.labels); });
}

void Node::apply(const scheduler::LeaseEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const grant = std::get_if<scheduler::Grant>(&effect)) {
      const auto request = lease_requests_.find(grant->request);
      const auto worker = find_worker(grant->worker);
      if (request == lease_requests_.end() || worker == nullptr) continue;
      const Asked asked = request->second;
      lease_requests_.erase(request);
      if (asked.client.peer != nullptr) {
        hand_over(*worker, asked.client, *asked.request, {}, {asked.amounts, worker->gpus});
        continue;
      }
      if (!asked.request) {  // the head that asked is no more
        apply(leases_.returned(worker->id, asked.client.caller, executor_.now()));
        continue;
      }
      worker->user = {};
      worker->far_user = asked.client.caller;
      worker->holding = {asked.amounts, worker->gpus};
      tell_head(wire::LeaseGranted{*asked.request, worker->id, settings_.id, {}});
    } else if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
      if (const auto job = jobs_.find(start->job); job != jobs_.end()) {
        background_.spawn(start_leased(this, job->second, start->request, names_of(start->gpus)));
      }
    } else if (const auto* const end = std::get_if<scheduler::EndWorker>(&effect)) {
      if (const auto worker = find_worker(end->worker)) end_worker(worker);
    } else if (const auto* const refused = std::get_if<scheduler::Refuse>(&effect)) {
      if (const auto asked = lease_requests_.extract(refused->request)) refuse(asked.mapped(), refused->why);
    } else if (const auto* const reserved = std::get_if<scheduler::Reserved>(&effect)) {
      if (starting_.contains(reserved->reservation)) {
        begin(reserved->reservation);
      } else {
        note_held(*reserved);
      }
    }
  }
  if (leases_.idle() != 0 && !std::exchange(ends_idle_workers_, true)) background_.spawn(end_idle_workers(this));
  tell_load_later();
}

// Short tasks change it all the time.
void Node::tell_load_later() {
  if (tells_load_ || leases_.tasks() == told_load_) return;
  tells_load_ = true;
  executor_.run_at(executor_.now() + kLoadTime, [this] {
    tells_load_ = false;
    if (leases_.tasks() == told_load_) return;
    told_load_ = leases_.tasks();
    tell_head(wire::NodeLoad{told_load_.amounts()});
  });
}

async::Async<void> Node::start_leased(Node* self, std::shared_ptr<Job> job, scheduler::LeaseRequestId request,
                                      std::vector<std::string> gpus) {
  auto worker = co_await start_worker(self, job, ActorId{}, "task worker", 0, gpus);
  if (worker) {
    self->apply(self->leases_.worker_started(request, (*worker)->id));
    co_return;
  }
  const auto found = self->lease_requests_.find(request);
  if (found != self->lease_requests_.end()) {
    self->refuse(found->second, std::move(worker).error());
    self->lease_requests_.erase(found);
  }
  self->apply(self->leases_.start_failed(request));
}

async::Async<void> Node::end_idle_workers(Node* self) {
  while (self->leases_.idle() != 0) {
    const auto slept = co_await async::sleep(1s);
    if (!slept) break;
    self->apply(self->leases_.tick(self->executor_.now()));
  }
  self->ends_idle_workers_ = false;
}

std::vector<std::string> Node::names_of(const std::vector<scheduler::GpuShare>& gpus) const {
  std::vector<std::string> names;
  for (const scheduler::GpuShare& share : gpus) names.push_back(settings_.machine.gpus.at(share.index));
  return names;
}

// ---- Workers for callers of other nodes, and theirs for callers here

bool Node::on_far_lease_message(wire::Message& message) {
  if (const auto* const lease = std::get_if<wire::LeaseWorker>(&message)) {
    lease_to_far(*lease);
  } else if (const auto* const returned = std::get_if<wire::ReturnLease>(&message)) {
    take_back(*returned, returned->caller);
  } else if (const auto* const ended_caller = std::get_if<wire::EndCaller>(&message)) {
    end_far_lessee(ended_caller->caller);
  } else if (const auto* const granted = std::get_if<wire::LeaseGranted>(&message)) {
    background_.spawn(reach_leased(this, *granted));
  } else if (const auto* const ended = std::get_if<wire::WorkerEnded>(&message)) {
    if (const auto held = far_leases_.extract(ended->worker); !held.empty()) held.mapped().client.peer->send(*ended);
  } else {
    return false;
  }
  return true;
}

void Node::lease_to_far(const wire::LeaseWorker& lease) {
  const auto demand = checked(lease.demand);
  const auto job = jobs_.find(lease.asker.job);
  const Asked asked{{nullptr, job == jobs_.end() ? nullptr : job->second, nullptr, lease.asker.caller},
                    lease.asker.number,
                    lease.demand.amounts};
  if (!demand || job == jobs_.end() || !leases_.could_fit(demand->amounts)) {
    return refuse(asked, Error{ErrorCode::kUnavailable, "the node cannot run that any more", "Try again."});
  }
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, asked);
  auto effects = leases_.request(id, {lease.asker.job, lease.asker.caller, lease.nested}, demand->amounts);
  if (effects) return apply(*effects);
  lease_requests_.erase(id);
  refuse(asked, std::move(effects).error());
}

async::Async<void> Node::reach_leased(Node* self, wire::LeaseGranted granted) {
  const auto found = self->asked_.find(granted.number);
  if (found == self->asked_.end()) co_return;  // the head ends the leases of callers that have ended
  found->second.reaching = true;
  found->second.granted = granted.worker;
  const Client client = found->second.client;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .caller = client.caller.value(),
                                  .worker = granted.worker.value()};
  auto socket = co_await connect_far(self, granted.address, introduction);
  const auto asked = self->asked_.extract(granted.number);
  if (asked.empty()) co_return;
  if (!socket) {
    self->tell_head(wire::ReturnLease{granted.worker, client.caller});
    // Of this code callers ask again, after a pause.
    self->refuse(asked.mapped(), Error{ErrorCode::kOverloaded, socket.error().message()});
    co_return;
  }
  self->far_leases_.emplace(granted.worker, FarLease{client, granted.node, granted.address, asked.mapped().amounts});
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  client.peer->respond(*asked.mapped().request, wire::WorkerReady{granted.worker, ActorId{}, 0, 0, 0, true},
                       std::move(descriptors));
}

// One that still runs a task of a lessee who cannot be answered would hold up the next one.
void Node::take_back(const wire::ReturnLease& returned, CallerId lessee) {
  if (!returned.broken) return apply(leases_.returned(returned.worker, lessee, executor_.now()));
  const auto worker = find_worker(returned.worker);
  if (worker != nullptr && leases_.lessee_of(worker->id) == lessee) end_worker(worker);
}

void Node::end_far_lessee(CallerId caller) {
  std::erase_if(lease_requests_, [caller](const auto& entry) { return entry.second.client.caller == caller; });
  apply(leases_.lessee_ended(caller));
}

}  // namespace pharos::node
