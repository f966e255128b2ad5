#include <algorithm>
#include <chrono>

#include <pharos/async/sleep.hpp>

#include "demands.hpp"
#include "node_records.hpp"

namespace pharos::node {

using namespace std::chrono_literals;

namespace {
constexpr auto kLoadTime = 100ms;        // between two words of what tasks have
constexpr auto kLinesTime = 1s;          // of who waits, for people
constexpr std::size_t kLinesMax = 16;    // of that
constexpr auto kPatience = 10ms;         // for a worker here, before other nodes are asked
constexpr auto kNoRoomTime = 100ms;      // before they are asked again
constexpr Duration kDrainTime = 3600s;   // for tasks that run
constexpr std::size_t kLookingMax = 16;  // questions at once, while they have room
}  // namespace

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
  const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, id.value()}, nested, true};
  lease_requests_.emplace(id, Asked{client, request, lease.demand.amounts, question});
  auto effects = leases_.request(id, {client.job->id, client.caller, nested}, demand->amounts);
  if (effects) {
    apply(*effects);
    wait_for_room(id, *demand);
  } else {
    lease_requests_.erase(id);
    client.peer->respond(request, std::move(effects).error());
  }
  return true;
}

/// Nothing speaks for another node.
bool Node::is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const {
  const NodeId here = settings_.id;
  return !drains_ && !asked.spread && (!asked.near || asked.near == here) && (!demand.only || demand.only == here) &&
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
        hand_over_leased(worker, asked);
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

void Node::hand_over_leased(const std::shared_ptr<Worker>& worker, const Asked& asked) {
  worker->user = asked.client;
  worker->far_user = {};
  // Of this code callers ask again, after a pause.
  const auto refuse_it = [asked](std::string why) {
    asked.client.peer->respond(*asked.request, Error{ErrorCode::kOverloaded, std::move(why)});
  };
  const bool may =
      hand_over(worker->id, [this, asked, refuse_it](const std::shared_ptr<Worker>& there) -> std::optional<Served> {
        if (!clients_.contains(asked.client.peer.get())) return std::nullopt;
        if (there != nullptr) return connect(*there, asked.client, *asked.request, {}, {asked.amounts, there->gpus});
        refuse_it("the worker has just ended");
        return std::nullopt;
      });
  if (may) return;
  refuse_it("too many others wait for connections to processes of this node");
  apply(leases_.returned(worker->id, asked.client.caller, executor_.now()));
}

// Short tasks change it all the time.
void Node::tell_load_later() {
  const bool is_known = told_load_ && leases_.tasks().amounts() == told_load_->tasks;
  if (is_known && leases_.waiting() == told_waiting_) return;
  const TimePoint when = executor_.now() + (is_known ? Duration{kLinesTime} : Duration{kLoadTime});
  if (tells_load_at_ && *tells_load_at_ <= when) return;
  tells_load_at_ = when;
  executor_.run_at(when, [this, when] {
    if (tells_load_at_ != when) return;
    tells_load_at_.reset();
    if (load() != told_load_) tell_load();
  });
}

wire::NodeLoad Node::load() const {
  wire::NodeLoad load{leases_.tasks().amounts(), {}};
  for (const auto& [demand, workers] : leases_.waiting_for(kLinesMax)) {
    load.waiting.push_back({demand.amounts(), static_cast<std::uint32_t>(workers)});
  }
  return load;
}

void Node::tell_load() {
  told_load_ = load();
  told_waiting_ = leases_.waiting();
  tell_head(*told_load_);
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

// ---- Requests that may be served elsewhere
//
// They stay in their line here while the head is asked for room at another node, and have what comes first. While there
// is none, one question is asked from time to time; while there is some, many at once.

void Node::wait_for_room(scheduler::LeaseRequestId request, const scheduler::Demand& demand) {
  if (demand.only || !lease_requests_.contains(request)) return;
  movable_.push_back(request);
  look_elsewhere_after(kPatience);
}

void Node::look_elsewhere_after(Duration time) {
  if (movable_.empty() || !looking_.empty() || std::exchange(looks_elsewhere_, true)) return;
  executor_.run_at(executor_.now() + time, [this] {
    looks_elsewhere_ = false;
    look_elsewhere();
  });
}

void Node::look_elsewhere() {
  while (!movable_.empty() && looking_.size() < looking_max_) {
    const scheduler::LeaseRequestId id = movable_.front();
    movable_.pop_front();
    const auto waiting = lease_requests_.find(id);
    if (waiting == lease_requests_.end() || leases_.starts(id)) continue;
    Asked asked = waiting->second;
    const std::uint64_t number = ++last_number_;
    std::get<wire::LeaseWorker>(asked.question).asker.number = number;
    asked.waits_here = id;
    const wire::Message question = asked.question;
    asked_.emplace(number, std::move(asked));
    looking_.insert(number);
    tell_head(question);
  }
}

void Node::found_no_room(scheduler::LeaseRequestId request) {
  movable_.push_front(request);
  looking_max_ = 1;
  look_elsewhere_after(kNoRoomTime);
}

/// Whether it is to be reached.
bool Node::take_from_elsewhere(const wire::LeaseGranted& granted) {
  const Asked asked = asked_.at(granted.number);
  const bool waited = leaves_line(asked.waits_here);
  const bool for_far = asked.client.peer == nullptr;
  if (!waited || (for_far && !asked.request)) {
    tell_head(wire::ReturnLease{granted.worker, asked.client.caller});
  } else if (for_far) {
    tell_head(wire::LeaseGranted{*asked.request, granted.worker, granted.node, {}});
  }
  if (!waited || for_far) asked_.erase(granted.number);
  looking_max_ = kLookingMax;
  look_elsewhere();
  return waited && !for_far;
}

/// False: it is being served here.
bool Node::leaves_line(scheduler::LeaseRequestId request) {
  auto effects = leases_.withdraw(request);
  if (!effects) return false;
  lease_requests_.erase(request);
  apply(*effects);
  return true;
}

/// Tasks that run may end; those behind them go back to where they came from, and leases are returned.
void Node::drain() {
  drains_ = true;
  for (const auto& [id, worker] : workers_) {
    if (!worker->actor && leases_.lessee_of(id) && !std::exchange(worker->told_to_end, true)) {
      end_worker(worker, kDrainTime);
    }
  }
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
  wire::LeaseWorker question = lease;
  question.only_now = true;
  const Asked asked{{nullptr, job == jobs_.end() ? nullptr : job->second, nullptr, lease.asker.caller},
                    lease.asker.number,
                    lease.demand.amounts,
                    question};
  if (!demand || job == jobs_.end() || drains_ || !leases_.could_fit(demand->amounts)) {
    return refuse(asked, Error{ErrorCode::kUnavailable, "the node cannot run that any more", "Try again."});
  }
  told_load_.reset();
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, asked);
  auto effects = leases_.request(id, {lease.asker.job, lease.asker.caller, lease.nested}, demand->amounts);
  if (!effects) {
    lease_requests_.erase(id);
    return refuse(asked, std::move(effects).error());
  }
  apply(*effects);
  if (!lease.only_now) {
    wait_for_room(id, *demand);
  } else if (leaves_line(id)) {
    tell_load();
    refuse(asked, Error{ErrorCode::kOverloaded, "the node has no room any more"});
  }
}

async::Async<void> Node::reach_leased(Node* self, wire::LeaseGranted granted) {
  const bool looked_for = self->looking_.erase(granted.number) != 0;
  const auto found = self->asked_.find(granted.number);
  if (found == self->asked_.end()) {  // its caller has ended, which the head may have known before this was asked
    if (looked_for) self->tell_head(wire::ReturnLease{granted.worker, {}});
    co_return;
  }
  if (looked_for && !self->take_from_elsewhere(granted)) co_return;
  found->second.reaching = true;
  found->second.granted = granted.worker;
  const Client client = found->second.client;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .caller = client.caller.value(),
                                  .worker = granted.worker.value()};
  auto socket = co_await connect_far(self, granted.node, granted.address, introduction);
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
