#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include <pharos/async/sleep.hpp>

#include "node/demands.hpp"
#include "node/node_records.hpp"

namespace pharos::node {

using namespace std::chrono_literals;

namespace {
constexpr auto kLoadTime = 100ms;         // between two reports of what tasks use
constexpr auto kLinesTime = 1s;           // between two reports of what tasks wait for, which only users look at
constexpr std::size_t kLinesMax = 16;     // lines of waiting tasks in such a report
constexpr auto kPatience = 10ms;          // with a full node, before other nodes are asked for room
constexpr auto kRoundTime = 100ms;        // between two rounds of asking for lines that found no room
constexpr auto kRecallTime = 5ms;         // between two looks whether leases are to be recalled
constexpr int kQuietLooksMax = 20;        // looks in a row that recall nothing, before they become rarer
constexpr auto kQuietRecallTime = 100ms;  // between two looks after that
constexpr auto kRecallTimeOfEach = 5us;   // added to both for each request that waits
// Tasks that run while their node drains get the longest time that EndWorker can say. The user who drains a node may
// set a limit.
constexpr Duration kDrainTime = std::chrono::milliseconds{std::numeric_limits<std::uint32_t>::max()};

// Callers retry after a pause when they get kOverloaded.
Error drains() {
  return {ErrorCode::kOverloaded, "the node drains, and takes no more tasks"};
}
}  // namespace

bool Node::on_lease_request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request) {
  const auto demand = checked(lease.demand);
  if (!demand) {
    client.peer->respond(request, demand.error());
    return true;
  }
  const bool nested = client.worker != nullptr;
  if (!is_for_here(*demand, lease.demand)) {  // the head finds another node, or refuses
    const std::uint64_t number = ++last_number_;
    const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, number}, nested};
    asked_.emplace(number, Asked{client, request, lease.demand.amounts, question});
    tell_head(question);
    return true;
  }
  const scheduler::LeaseRequestId id{++last_number_};
  const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, id.value()}, nested, true};
  lease_requests_.emplace(id, Asked{client, request, lease.demand.amounts, question});
  auto effects = leases_.request(id, {client.job->id, client.caller, nested}, demand->amounts, executor_.now());
  if (effects) {
    apply(*effects);
    wait_for_room(id, *demand);
  } else {
    lease_requests_.erase(id);
    client.peer->respond(request, std::move(effects).error());
  }
  return true;
}

/// Returns whether the demand fits this node and does not ask for another one.
bool Node::is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const {
  const NodeId here = settings_.id;
  return !drains_ && !asked.spread && (!asked.near || asked.near == here) && (!demand.only || demand.only == here) &&
         leases_.could_fit(demand.amounts) &&
         std::all_of(demand.labels.begin(), demand.labels.end(),
                     [&](const scheduler::LabelRule& rule) { return rule.holds_for(settings_.machine.labels); });
}

// An effect may lead to more effects, which are appended and applied after the others. So the calls do not nest,
// however many grants fail and go to the next request.
void Node::apply(const scheduler::LeaseEffects& effects) {
  lease_effects_.insert(lease_effects_.end(), effects.begin(), effects.end());
  if (std::exchange(applies_, true)) return;
  while (!lease_effects_.empty()) {
    const scheduler::LeaseEffect effect = std::move(lease_effects_.front());
    lease_effects_.pop_front();
    apply(effect);
  }
  applies_ = false;
  if (leases_.idle() != 0 && !std::exchange(ends_idle_workers_, true)) background_.spawn(end_idle_workers(this));
  quiet_looks_ = 0;
  recall_later();
  tell_load_later();
}

void Node::apply(const scheduler::LeaseEffect& effect) {
  if (const auto* const granted = std::get_if<scheduler::Grant>(&effect)) {
    grant(*granted);
  } else if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
    if (const auto job = jobs_.find(start->job); job != jobs_.end()) {
      background_.spawn(start_leased(this, job->second, start->request, names_of(start->gpus)));
    }
  } else if (const auto* const end = std::get_if<scheduler::EndWorker>(&effect)) {
    if (const auto worker = find_worker(end->worker)) end_worker(worker);
  } else if (const auto* const refused = std::get_if<scheduler::Refuse>(&effect)) {
    if (const auto asked = lease_requests_.extract(refused->request)) refuse(asked.mapped(), refused->why);
  } else if (const auto* const recalled = std::get_if<scheduler::Recall>(&effect)) {
    recall(*recalled);
  } else if (const auto* const reserved = std::get_if<scheduler::Reserved>(&effect)) {
    if (starting_.contains(reserved->reservation)) {
      begin(reserved->reservation);
    } else {
      note_held(*reserved);
    }
  }
}

void Node::grant(const scheduler::Grant& grant) {
  const auto request = lease_requests_.find(grant.request);
  const auto worker = find_worker(grant.worker);
  if (request == lease_requests_.end() || worker == nullptr) return;
  const Asked asked = request->second;
  lease_requests_.erase(request);
  if (asked.client.peer != nullptr) return hand_over_leased(worker, asked);
  if (!asked.request) {  // the head that asked is gone
    return apply(leases_.returned(worker->id, asked.client.caller, executor_.now()));
  }
  worker->user = nullptr;
  worker->far_user = asked.client.caller;
  worker->holding = {asked.amounts, worker->gpus};
  tell_head(wire::LeaseGranted{*asked.request, worker->id, settings_.id, {}});
}

void Node::hand_over_leased(const std::shared_ptr<Worker>& worker, const Asked& asked) {
  worker->user = asked.client.peer;
  worker->far_user = {};
  // Callers retry after a pause when they get kOverloaded.
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
  refuse_it("too many callers wait for connections to processes of this node");
  apply(leases_.returned(worker->id, asked.client.caller, executor_.now()));
}

// While a single caller has all leases here, and no other caller and no actor waits, there is nothing to recall.
void Node::recall_later() {
  if (!leases_.has_to_recall()) return;
  const auto waiting = static_cast<std::int64_t>(leases_.waiting());
  const Duration pause = quiet_looks_ < kQuietLooksMax ? Duration{kRecallTime} : Duration{kQuietRecallTime};
  const TimePoint when = executor_.now() + pause + waiting * kRecallTimeOfEach;
  if (recalls_at_ && *recalls_at_ <= when) return;
  recalls_at_ = when;
  executor_.run_at(when, [this, when] {
    if (recalls_at_ != when) return;
    recalls_at_.reset();
    const auto effects = leases_.recall(executor_.now());
    if (!effects.empty()) return apply(effects);
    ++quiet_looks_;
    recall_later();
  });
}

void Node::recall(const scheduler::Recall& recalled) {
  const auto worker = find_worker(recalled.workers.front());
  if (worker == nullptr) return;
  const wire::RecallLeases message{recalled.workers, static_cast<std::uint32_t>(recalled.count)};
  if (worker->user != nullptr) {
    worker->user->send(message);
  } else if (worker->far_user) {
    tell_head(message);
  }
}

// Short tasks change the load all the time, so the head is told after a pause.
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
// Such a request keeps its place in the line here while the head is asked for room at another node. It takes whichever
// comes first.

void Node::wait_for_room(scheduler::LeaseRequestId request, const scheduler::Demand& demand) {
  if (demand.only || !lease_requests_.contains(request)) return;
  remote_requests_.add(demand, request);
  begin_rounds();
  if (std::exchange(looks_elsewhere_, true)) return;
  executor_.run_at(executor_.now() + kPatience, [this] {
    looks_elsewhere_ = false;
    look_elsewhere();
  });
}

void Node::begin_rounds() {
  if (std::exchange(has_rounds_, true)) return;
  executor_.run_at(executor_.now() + kRoundTime, [this] {
    has_rounds_ = false;
    remote_requests_.begin_round();
    look_elsewhere();
    if (!remote_requests_.empty()) begin_rounds();
  });
}

void Node::look_elsewhere() {
  while (const auto id = remote_requests_.next()) {
    Asked asked = lease_requests_.at(*id);
    const std::uint64_t number = ++last_number_;
    std::get<wire::LeaseWorker>(asked.question).asker.number = number;
    asked.waits_here = *id;
    const wire::Message question = asked.question;
    asked_.emplace(number, std::move(asked));
    tell_head(question);
  }
}

void Node::forget_questions(const std::function<bool(const Client&)>& of) {
  std::erase_if(asked_, [&](const auto& entry) {
    const Asked& asked = entry.second;
    if (!of(asked.client)) return false;
    if (asked.waits_here) remote_requests_.forget(asked.waits_here);
    return true;
  });
}

/// Another node has granted a request that also waits here. Returns whether that worker is to be reached for a caller
/// of this node.
bool Node::take_from_elsewhere(const wire::LeaseGranted& granted) {
  const Asked asked = asked_.at(granted.number);
  remote_requests_.found_room(asked.waits_here);
  const bool waited = leaves_line(asked.waits_here);
  const bool for_far = asked.client.peer == nullptr;
  if (!waited || (for_far && !asked.request)) {
    tell_head(wire::ReturnLease{granted.worker, asked.client.caller});
  } else if (for_far) {
    tell_head(wire::LeaseGranted{*asked.request, granted.worker, granted.node, {}});
  }
  if (!waited || for_far) asked_.erase(granted.number);
  look_elsewhere();
  return waited && !for_far;
}

/// Takes a request out of the line. Returns false if it is being served here already.
bool Node::leaves_line(scheduler::LeaseRequestId request) {
  auto effects = leases_.withdraw(request);
  if (!effects) return false;
  lease_requests_.erase(request);
  apply(*effects);
  return true;
}

void Node::leave(Duration grace) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  tell_head(wire::DrainNode{settings_.id, static_cast<std::uint32_t>(milliseconds)});
}

/// Tasks that run may end. Tasks queued behind them go back to their callers, and the leases are returned. Callers that
/// wait for a lease are refused with kOverloaded; they ask again, and are served elsewhere.
void Node::drain() {
  drains_ = true;
  std::vector<scheduler::LeaseRequestId> waiting;
  for (const auto& [id, asked] : lease_requests_) waiting.push_back(id);
  for (const scheduler::LeaseRequestId each : waiting) {
    const auto asked = lease_requests_.find(each);
    if (asked == lease_requests_.end()) continue;
    const Asked refused = asked->second;
    if (leaves_line(each) && refused.request) refuse(refused, drains());
  }
  for (const auto& [id, worker] : workers_) {
    if (!worker->actor && leases_.lessee_of(id) && !std::exchange(worker->told_to_end, true)) {
      end_worker(worker, kDrainTime);
    }
  }
}

// ---- Leases between nodes: workers here for callers elsewhere, and workers elsewhere for callers here

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
  } else if (const auto* const recalled = std::get_if<wire::RecallLeases>(&message)) {
    recall_far(*recalled);
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
  told_load_.reset();
  if (!demand || job == jobs_.end() || drains_ || !leases_.could_fit(demand->amounts)) {
    tell_load();
    if (drains_) return refuse(asked, drains());
    return refuse(asked, Error{ErrorCode::kUnavailable, "the node cannot run this task any more", "Try again."});
  }
  const scheduler::LeaseRequestId id{++last_number_};
  lease_requests_.emplace(id, asked);
  const scheduler::Lessee lessee{lease.asker.job, lease.asker.caller, lease.nested};
  auto effects = leases_.request(id, lessee, demand->amounts, executor_.now());
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

// All of these workers are leased by one caller. Some of the leases may not be known here yet.
void Node::recall_far(const wire::RecallLeases& recalled) {
  for (const WorkerId worker : recalled.workers) {
    const auto held = far_leases_.find(worker);
    if (held != far_leases_.end()) return static_cast<void>(held->second.client.peer->send(recalled));
  }
}

async::Async<void> Node::reach_leased(Node* self, wire::LeaseGranted granted) {
  const auto found = self->asked_.find(granted.number);
  if (found == self->asked_.end()) {  // the caller has ended, perhaps before the head was asked
    self->tell_head(wire::ReturnLease{granted.worker, {}});
    co_return;
  }
  if (found->second.waits_here && !self->take_from_elsewhere(granted)) co_return;
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
    // Callers retry after a pause when they get kOverloaded.
    self->refuse(asked.mapped(), Error{ErrorCode::kOverloaded, socket.error().message()});
    co_return;
  }
  self->far_leases_.emplace(granted.worker, FarLease{client, granted.node, granted.address, asked.mapped().amounts});
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  client.peer->respond(*asked.mapped().request, wire::WorkerReady{granted.worker, ActorId{}, 0, 0, 0, true},
                       std::move(descriptors));
}

// A worker whose lessee's connection has broken may still run a task of that lessee, whose reply cannot arrive. The
// next lessee would have to wait for it. Such a worker ends instead, and so does one that was told to end.
void Node::take_back(const wire::ReturnLease& returned, CallerId lessee) {
  const auto worker = find_worker(returned.worker);
  if (worker == nullptr || (!returned.broken && !worker->told_to_end)) {
    return apply(leases_.returned(returned.worker, lessee, executor_.now()));
  }
  if (leases_.lessee_of(worker->id) == lessee) end_worker(worker);
}

void Node::end_far_lessee(CallerId caller) {
  std::erase_if(lease_requests_, [caller](const auto& entry) { return entry.second.client.caller == caller; });
  forget_questions([caller](const Client& client) { return client.caller == caller; });
  apply(leases_.lessee_ended(caller));
}

}  // namespace pharos::node
