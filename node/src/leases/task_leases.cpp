#include "leases/task_leases.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <pharos/async/sleep.hpp>

#include "leases/environments.hpp"
#include "node/demands.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

// Tasks that run while their node drains get the longest time that EndWorker can say. The user who drains a node may
// set a limit.
constexpr Duration kDrainTime = std::chrono::milliseconds{std::numeric_limits<std::uint32_t>::max()};

// Callers retry after a pause when they get kOverloaded.
Error drains() {
  return {ErrorCode::kOverloaded, "the node drains, and takes no more tasks"};
}

}  // namespace

TaskLeases::TaskLeases(Site& site, LeaseBook& book, Clients& clients, Questions& questions, Jobs& jobs,
                       Workers& workers, HandOverLine& hand_overs)
    : site_{site},
      book_{book},
      clients_{clients},
      questions_{questions},
      jobs_{jobs},
      workers_{workers},
      hand_overs_{hand_overs},
      elsewhere_{site.executor,
                 [this](scheduler::LeaseRequestId each) { return requests_.contains(each) && !book_.starts(each); },
                 [this](scheduler::LeaseRequestId each) { ask_elsewhere(each); }},
      load_{site.executor, book, site.head},
      recalls_{site.executor, book} {}

void TaskLeases::request(const Client& client, const wire::LeaseWorker& lease, std::uint64_t request) {
  const auto demand = checked(lease.demand);
  if (!demand) {
    client.peer->respond(request, demand.error());
    return;
  }
  const bool nested = client.worker != nullptr;
  const std::uint64_t number = site_.head.next_number();
  if (!is_for_here(*demand, lease.demand)) {  // the head finds another node, or refuses
    const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, number}, nested};
    return questions_.ask(number, Asked{client, request, lease.demand.amounts, question});
  }
  const scheduler::LeaseRequestId id{number};
  const wire::LeaseWorker question{lease.demand, {client.job->id, client.caller, number}, nested, true};
  requests_.emplace(id, Asked{client, request, lease.demand.amounts, question});
  const scheduler::Lessee lessee{client.job->id, client.caller, nested, lease.demand.environment};
  auto effects = book_.leases().request(id, lessee, demand->amounts, site_.executor.now());
  if (effects) {
    book_.apply(*effects);
    wait_for_room(id, *demand);
  } else {
    requests_.erase(id);
    client.peer->respond(request, std::move(effects).error());
  }
}

/// Returns whether the demand fits this node, and neither asks for another one nor prefers one.
bool TaskLeases::is_for_here(const scheduler::Demand& demand, const wire::Demand& asked) const {
  const NodeId here = site_.settings.id;
  const auto holds = [&](const std::vector<scheduler::LabelRule>& rules) {
    return std::all_of(rules.begin(), rules.end(),
                       [&](const scheduler::LabelRule& rule) { return rule.holds_for(site_.settings.machine.labels); });
  };
  const auto preferred = preference_of(asked, here).labels;
  return !drains_ && !asked.group && !asked.spread && (!asked.near || asked.near == here) &&
         (!demand.only || demand.only == here) && book_.leases().could_fit(demand.amounts) && holds(demand.labels) &&
         (preferred.empty() || holds(preferred.front()));
}

void TaskLeases::request_for_far(const wire::LeaseWorker& lease) {
  const auto demand = checked(lease.demand);
  const auto job = jobs_.find(lease.asker.job);
  wire::LeaseWorker question = lease;
  question.only_now = true;
  const Asked asked{{nullptr, job, nullptr, lease.asker.caller}, lease.asker.number, lease.demand.amounts, question};
  load_.forget_told();
  scheduler::Leases* const leases = book_.find({lease.demand.group, lease.bundle});
  if (!demand || job == nullptr || drains_ || leases == nullptr || !leases->could_fit(demand->amounts)) {
    load_.tell();
    if (drains_) return questions_.refuse(asked, drains());
    if (leases == nullptr) return questions_.refuse(asked, Error{ErrorCode::kOverloaded, "its bundle was given up"});
    return questions_.refuse(asked,
                             Error{ErrorCode::kUnavailable, "the node cannot run this task any more", "Try again."});
  }
  const scheduler::LeaseRequestId id{site_.head.next_number()};
  requests_.emplace(id, asked);
  const scheduler::Lessee lessee{lease.asker.job, lease.asker.caller, lease.nested, lease.demand.environment};
  auto effects = leases->request(id, lessee, demand->amounts, site_.executor.now());
  if (!effects) {
    requests_.erase(id);
    return questions_.refuse(asked, std::move(effects).error());
  }
  book_.apply(*effects);
  if (!lease.only_now) {
    wait_for_room(id, *demand);
  } else if (leaves_line(id)) {
    load_.tell();
    questions_.refuse(asked, Error{ErrorCode::kOverloaded, "the node has no room any more"});
  }
}

// A worker whose lessee's connection has broken may still run a task of that lessee, whose reply cannot arrive. The
// next lessee would have to wait for it. Such a worker ends instead, and so does one that was told to end.
void TaskLeases::take_back(const wire::ReturnLease& returned, CallerId lessee) {
  const auto worker = workers_.find(returned.worker);
  const bool ends =
      worker != nullptr && (returned.broken || returned.kill || worker->process.life.state() == WorkerState::kLastTask);
  if (!ends) return give_back(returned.worker, lessee);
  if (book_.lessee_of(worker->id) != lessee) return;
  if (returned.kill) {
    workers_.kill(*worker);
  } else {
    workers_.end(worker);
  }
}

void TaskLeases::give_back(WorkerId worker, CallerId lessee) {
  book_.tell_all([&](scheduler::Leases& leases) { return leases.returned(worker, lessee, site_.executor.now()); });
}

void TaskLeases::forget_if(const std::function<bool(const Client&)>& of) {
  std::erase_if(requests_, [&](const auto& entry) { return of(entry.second.client); });
}

void TaskLeases::end_far_lessee(CallerId caller) {
  const auto is_its = [caller](const Client& client) { return client.caller == caller; };
  forget_if(is_its);
  questions_.forget_if(is_its);
  book_.tell_all([&](scheduler::Leases& leases) { return leases.lessee_ended(caller); });
}

void TaskLeases::drop_far_requests() {
  std::vector<scheduler::LeaseRequestId> of_others;
  for (auto& [id, asked] : requests_) {
    if (asked.client.peer != nullptr) continue;
    asked.request.reset();
    of_others.push_back(id);
  }
  for (const scheduler::LeaseRequestId each : of_others) leaves_line(each);
}

void TaskLeases::drain() {
  drains_ = true;
  std::vector<scheduler::LeaseRequestId> waiting;
  for (const auto& [id, asked] : requests_) waiting.push_back(id);
  for (const scheduler::LeaseRequestId each : waiting) {
    const auto asked = requests_.find(each);
    if (asked == requests_.end()) continue;
    const Asked refused = asked->second;
    if (leaves_line(each) && refused.request) questions_.refuse(refused, drains());
  }
  for (const auto& [id, worker] : workers_.all()) {
    if (worker->incarnation.actor || !book_.lessee_of(id)) continue;
    if (worker->process.life.state() == WorkerState::kLastTask) continue;
    worker->process.life.on(WorkerEvent::kToldToEnd);
    workers_.end(worker, kDrainTime);
  }
}

// ---- What the book decides

void TaskLeases::grant(const scheduler::Grant& grant) {
  const auto request = requests_.find(grant.request);
  const auto worker = workers_.find(grant.worker);
  if (request == requests_.end() || worker == nullptr) return;
  const Asked asked = request->second;
  requests_.erase(request);
  if (asked.client.peer != nullptr) {
    worker->leased_to.user = asked.client.peer;
    worker->leased_to.far_user = {};
    if (!hand_over(worker->id, asked)) give_back(worker->id, asked.client.caller);
    return;
  }
  if (!asked.request) {  // the head that asked is gone
    return give_back(worker->id, asked.client.caller);
  }
  worker->leased_to = {nullptr, asked.client.caller, {asked.amounts, worker->gpus}};
  site_.head.tell(wire::LeaseGranted{*asked.request, worker->id, site_.settings.id, {}});
}

bool TaskLeases::hand_over(WorkerId worker, const Asked& asked) {
  // Callers retry after a pause when they get kOverloaded.
  const auto refuse_it = [asked](std::string why) {
    asked.client.peer->respond(*asked.request, Error{ErrorCode::kOverloaded, std::move(why)});
  };
  const bool may = hand_overs_.add(
      worker, [this, asked, refuse_it](const std::shared_ptr<Worker>& there) -> std::optional<HandOverLine::Served> {
        if (!clients_.contains(*asked.client.peer)) return std::nullopt;
        if (there != nullptr) {
          return connect(site_.host, *there, asked.client, *asked.request, {}, {asked.amounts, there->gpus});
        }
        refuse_it("the worker has just ended");
        return std::nullopt;
      });
  if (!may) refuse_it("too many callers wait for connections to processes of this node");
  return may;
}

void TaskLeases::start(const scheduler::StartWorker& start) {
  if (const auto job = jobs_.find(start.job)) {
    site_.background.spawn(
        start_worker(job, start.request, names_of(site_.settings.machine, start.gpus), start.environment));
  }
}

async::Async<void> TaskLeases::start_worker(std::shared_ptr<Job> job, scheduler::LeaseRequestId request,
                                            std::vector<std::string> gpus, scheduler::Environment environment) {
  Result<std::shared_ptr<Worker>> worker = Error{ErrorCode::kCancelled, "not started"};
  const auto zygote = co_await find_zygote(&site_, &book_, &jobs_, job, environment);
  if (zygote) {
    worker = co_await workers_.start(job, *zygote, ActorId{}, "task worker", 0, gpus);
  } else {
    worker = zygote.error();
  }
  if (worker) {
    book_.apply(book_.starting(request).worker_started(request, (*worker)->id));
    co_return;
  }
  const auto found = requests_.find(request);
  if (found != requests_.end()) {
    questions_.refuse(found->second, std::move(worker).error());
    requests_.erase(found);
  }
  book_.apply(book_.starting(request).start_failed(request));
}

void TaskLeases::refuse(const scheduler::Refuse& refused) {
  if (const auto asked = requests_.extract(refused.request)) questions_.refuse(asked.mapped(), refused.why);
}

void TaskLeases::recall(const scheduler::Recall& recalled) {
  const auto worker = workers_.find(recalled.workers.front());
  if (worker == nullptr) return;
  const wire::RecallLeases message{recalled.workers, static_cast<std::uint32_t>(recalled.count)};
  if (worker->leased_to.user != nullptr) {
    worker->leased_to.user->send(message);
  } else if (worker->leased_to.far_user) {
    site_.head.tell(message);
  }
}

void TaskLeases::settle() {
  if (book_.idle() != 0 && !std::exchange(ends_idle_workers_, true)) {
    site_.background.spawn(end_idle_workers());
  }
  recalls_.note_change();
  load_.note_change();
}

async::Async<void> TaskLeases::end_idle_workers() {
  while (book_.idle() != 0) {
    const auto slept = co_await async::sleep(1s);
    if (!slept) break;
    book_.tell_all([&](scheduler::Leases& leases) { return leases.tick(site_.executor.now()); });
  }
  ends_idle_workers_ = false;
}

void TaskLeases::end_worker(const Worker& worker, const std::string& reason) {
  book_.tell_all([&](scheduler::Leases& leases) { return leases.worker_ended(worker.id); });
  const wire::WorkerEnded ended{worker.id, reason, !worker.killed_for_memory.empty()};
  if (!worker.job->ended() && worker.leased_to.user != nullptr) worker.leased_to.user->send(ended);
  if (worker.leased_to.far_user) site_.head.tell(ended);
}

std::vector<std::string> names_of(const Machine& machine, const std::vector<scheduler::GpuShare>& gpus) {
  std::vector<std::string> names;
  for (const scheduler::GpuShare& share : gpus) names.push_back(machine.gpus.at(share.index));
  return names;
}

// ---- Requests that may be served elsewhere

void TaskLeases::wait_for_room(scheduler::LeaseRequestId request, const scheduler::Demand& demand) {
  const auto asked = requests_.find(request);
  if (asked == requests_.end()) return;
  const wire::Demand& wanted = std::get<wire::LeaseWorker>(asked->second.question).demand;
  const bool may_go = wanted.group ? wanted.bundle < 0 : !demand.only;
  if (may_go) elsewhere_.add(demand, request);
}

void TaskLeases::ask_elsewhere(scheduler::LeaseRequestId request) {
  Asked asked = requests_.at(request);
  const std::uint64_t number = site_.head.next_number();
  std::get<wire::LeaseWorker>(asked.question).asker.number = number;
  asked.waits_here = request;
  questions_.ask(number, std::move(asked));
}

void TaskLeases::forget_question(const Asked& asked) {
  if (asked.waits_here) elsewhere_.forget(asked.waits_here);
}

bool TaskLeases::take_from_elsewhere(const wire::LeaseGranted& granted) {
  const Asked asked = *questions_.find(granted.number);
  elsewhere_.found_room(asked.waits_here);
  const bool waited = leaves_line(asked.waits_here);
  const bool for_far = asked.client.peer == nullptr;
  if (!waited || (for_far && !asked.request)) {
    site_.head.tell(wire::ReturnLease{granted.worker, asked.client.caller});
  } else if (for_far) {
    site_.head.tell(wire::LeaseGranted{*asked.request, granted.worker, granted.node, {}});
  }
  if (!waited || for_far) questions_.take(granted.number);
  elsewhere_.look();
  return waited && !for_far;
}

/// Takes a request out of the line. Returns false if it is being served here already.
bool TaskLeases::leaves_line(scheduler::LeaseRequestId request) {
  bool waited = false;
  scheduler::LeaseEffects effects;
  book_.for_each([&](scheduler::Leases& leases) {
    if (auto left = leases.withdraw(request)) {
      waited = true;
      effects = *std::move(left);
    }
  });
  if (!waited) return false;
  requests_.erase(request);
  book_.apply(effects);
  return true;
}

}  // namespace pharos::node
