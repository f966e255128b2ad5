#include "node.hpp"

#include <chrono>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/random.hpp>

#include "network.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr auto kReasonTime = 50ms;  // between a connection's end and the word of how the process ended
constexpr auto kStopTime = 5s;
constexpr auto kIdleWorkerTime = 10s;
constexpr auto kLetGoTime = 20ms;

}  // namespace

Node::Node(Process& process, Spawner& spawner, std::uint32_t cpus)
    : process_{process},
      spawner_{spawner},
      executor_{process.executor()},
      id_{random_u64()},
      cpus_{cpus},
      leases_{scheduler::Resources::of_cpus(cpus), 4 * cpus + 4, kIdleWorkerTime},
      background_{executor_} {}

Node::~Node() = default;

void Node::end() {
  for (const auto& [id, worker] : workers_) worker->user = {};  // which may be each other
  for (const auto& [peer, client] : clients_) client.peer->close();
  background_.cancel();
  PHAROS_CHECK(background_.join_blocking(async::Deadline::never()).ok());
  clients_.clear();
  workers_.clear();
  jobs_.clear();
}

void Node::accept(Fd socket) {
  add_peer(std::move(socket));
}

std::shared_ptr<net::Peer> Node::add_peer(Fd socket) {
  const auto link = process_.network().open(std::move(socket), process_);
  auto peer = net::Peer::make(executor_, link, *this);
  clients_.emplace(peer.get(), Client{peer, nullptr, nullptr, {}});
  link->start(peer);
  return peer;
}

std::shared_ptr<Node::Worker> Node::find_worker(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second;
}

std::shared_ptr<Node::Worker> Node::find_incarnation(ActorId actor, std::uint32_t incarnation) const {
  for (const auto& [id, worker] : workers_) {
    if (worker->actor == actor && worker->incarnation == incarnation && worker->ready) return worker;
  }
  return nullptr;
}

// ---- Messages

void Node::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto found = clients_.find(&from);
  if (found == clients_.end()) return;
  const Client client = found->second;
  if (client.job == nullptr) {
    if (std::holds_alternative<wire::RegisterJob>(parcel.message) && request) register_job(client.peer, *request);
    return;
  }
  if (on_caller_message(client, parcel, request)) return;
  if (client.worker != nullptr) return on_worker_message(client, parcel);
  if (std::holds_alternative<wire::Stop>(parcel.message) && request) return stop_job(client.job, *request);
  if (request) from.respond(*request, Error{ErrorCode::kUnsupported, "a caller cannot ask for that"});
}

void Node::register_job(const std::shared_ptr<net::Peer>& driver, std::uint64_t request) {
  const auto job = std::make_shared<Job>();
  job->id = JobId{random_u64()};
  job->caller = CallerId{random_u64()};
  job->driver = driver;
  jobs_.emplace(job->id, job);
  clients_.insert_or_assign(driver.get(), Client{driver, job, nullptr, job->caller});
  driver->respond(request,
                  wire::JobRegistered{
                      .job = job->id, .caller = job->caller, .node = id_, .cpus = cpus_, .warning = {}, .address = {}});
}

bool Node::on_caller_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::LeaseWorker>(parcel.message) && request) {
    const scheduler::LeaseRequestId id{++last_id_};
    lease_requests_.emplace(id, Asked{client, *request});
    auto effects = leases_.request(id, {client.job->id, client.caller, client.worker != nullptr},
                                   scheduler::Resources::of_cpus(1));
    if (effects) {
      apply(*effects);
    } else {
      lease_requests_.erase(id);
      client.peer->respond(*request, std::move(effects).error());
    }
    return true;
  }
  if (const auto* const returned = std::get_if<wire::ReturnLease>(&parcel.message)) {
    apply(leases_.returned(returned->worker, client.caller, executor_.now()));
    tick_leases();
    return true;
  }
  return on_actor_message(client, parcel, request);
}

bool Node::on_actor_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (const auto* const start = std::get_if<wire::StartActor>(&parcel.message); start != nullptr && request) {
    const scheduler::ActorSpec spec{.job = client.job->id,
                                    .label = start->label,
                                    .name = start->name,
                                    .name_space = start->name_space,
                                    .type = start->type,
                                    .max_restarts = start->max_restarts,
                                    .detached = start->detached};
    makings_.try_emplace(start->actor, Making{client.job, *start});
    const auto id = expect_actor(client, *request);
    apply(actors_.create(id, start->actor, spec, start->get_if_exists, client.caller));
    if (actors_.find_spec(start->actor) == nullptr) makings_.erase(start->actor);
  } else if (const auto* const connect = std::get_if<wire::ConnectActor>(&parcel.message);
             connect != nullptr && request) {
    const auto id = expect_actor(client, *request);
    const auto lost = find_incarnation(connect->actor, connect->seen);
    if (lost == nullptr) {
      apply(actors_.connect(id, connect->actor, connect->seen));
      return true;
    }
    lost->reconnecting.push_back(id);
    executor_.run_at(executor_.now() + kReasonTime, [this, weak = std::weak_ptr{lost}] {
      if (const auto worker = weak.lock()) reconnect(*worker);
    });
  } else if (const auto* const find = std::get_if<wire::FindActor>(&parcel.message); find != nullptr && request) {
    const auto found = actors_.find(find->name_space, find->name, find->type, client.caller);
    if (found) {
      client.peer->respond(*request, wire::ActorFound{*found, actors_.find_spec(*found)->label});
    } else {
      client.peer->respond(*request, found.error());
    }
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&parcel.message)) {
    if (hold->count >= 0) {
      apply(actors_.hold(hold->actor, client.caller, hold->count));
      return true;
    }
    executor_.run_at(executor_.now() + kLetGoTime, [this, hold = *hold, caller = client.caller] {
      apply(actors_.hold(hold.actor, caller, hold.count));
    });
  } else if (const auto* const kill = std::get_if<wire::KillActor>(&parcel.message)) {
    apply(actors_.kill(kill->actor, "its program ended it"));
  } else {
    return false;
  }
  return true;
}

void Node::on_worker_message(const Client& client, const net::Parcel& parcel) {
  Worker& worker = *client.worker;
  if (const auto* const blocked = std::get_if<wire::WorkerBlocked>(&parcel.message)) {
    apply(blocked->blocked ? leases_.blocked(worker.id) : leases_.unblocked(worker.id));
  } else if (const auto* const made = std::get_if<wire::ActorConstructed>(&parcel.message)) {
    if (made->actor != worker.actor || made->incarnation != worker.incarnation) return;
    apply(made->failure ? actors_.constructor_failed(made->actor, made->incarnation, *made->failure)
                        : actors_.incarnation_started(made->actor, made->incarnation));
  } else if (std::holds_alternative<wire::WorkerForked>(parcel.message) && !worker.ready) {
    worker.ready = true;
    const CallerId caller{worker.id.value()};
    worker.control->send(wire::JobRegistered{
        .job = client.job->id, .caller = caller, .node = id_, .cpus = cpus_, .warning = {}, .address = {}});
    if (worker.actor) {
      const auto making = makings_.find(worker.actor);
      if (making == makings_.end()) return spawner_.kill_worker(worker.id);
      const wire::StartActor& start = making->second.start;
      worker.control->send(wire::ConstructActor{worker.actor, worker.incarnation, start.constructor, start.arguments});
      return;
    }
    for (auto each = starting_.begin(); each != starting_.end(); ++each) {
      if (each->second->id != worker.id) continue;
      const auto request = each->first;
      starting_.erase(each);
      return apply(leases_.worker_started(request, worker.id));
    }
  }
}

// ---- Ends

void Node::on_peer_closed(net::Peer& peer, const Error&) {
  const auto found = clients_.find(&peer);
  if (found == clients_.end()) return;
  const Client client = found->second;
  clients_.erase(found);
  if (client.job == nullptr) return;
  if (client.worker == nullptr) return end_job(*client.job);
  end_caller(client);
  client.worker->connected = false;
  if (client.worker->ended) return conclude(client.worker);
  // A process that closed its connection but lives on serves nobody.
  executor_.run_at(executor_.now() + kReasonTime, [this, weak = std::weak_ptr{client.worker}] {
    const auto worker = weak.lock();
    if (worker != nullptr && !worker->ended) spawner_.kill_worker(worker->id);
  });
}

void Node::on_worker_ended(WorkerId id, std::string reason) {
  const auto worker = find_worker(id);
  if (worker == nullptr) return;
  worker->ended = std::move(reason);
  if (!worker->connected) conclude(worker);
}

void Node::conclude(const std::shared_ptr<Worker>& worker) {
  const std::string reason = *worker->ended;
  workers_.erase(worker->id);
  if (worker->ready) {
    apply(leases_.worker_ended(worker->id));
    if (!worker->job->ended && worker->user.peer != nullptr) {
      worker->user.peer->send(wire::WorkerEnded{worker->id, reason});
    }
    worker->user = {};  // it may be a worker that this one had leased
  } else if (!worker->actor) {
    for (auto each = starting_.begin(); each != starting_.end(); ++each) {
      if (each->second != worker) continue;
      const auto request = each->first;
      starting_.erase(each);
      if (auto asked = lease_requests_.extract(request)) {
        asked.mapped().client.peer->respond(
            asked.mapped().request,
            Error{ErrorCode::kWorkerDied, "a worker ended before it was ready: " + reason}.with_outcome(
                Outcome::kNotStarted));
      }
      apply(leases_.start_failed(request));
      break;
    }
  }
  if (!worker->actor) return;
  apply(actors_.incarnation_ended(worker->actor, worker->incarnation, reason, executor_.now()));
  reconnect(*worker);
  if (actors_.find_spec(worker->actor) == nullptr) makings_.erase(worker->actor);
}

void Node::end_caller(const Client& client) {
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  std::erase_if(actor_requests_, [&](const auto& entry) {
    if (entry.second.client.caller != client.caller) return false;
    actors_.drop_request(entry.first);
    return true;
  });
  apply(leases_.lessee_ended(client.caller));
  apply(actors_.caller_ended(client.caller));
}

void Node::end_job(Job& job) {
  if (std::exchange(job.ended, true)) return;
  const auto kept = jobs_.extract(job.id);
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.job.get() == &job; });
  std::erase_if(actor_requests_, [&](const auto& entry) { return entry.second.client.job.get() == &job; });
  apply(leases_.job_ended(job.id));
  apply(actors_.job_ended(job.id));
  std::erase_if(makings_, [&](const auto& entry) { return entry.second.job.get() == &job; });
  for (const auto& [id, worker] : workers_) {
    if (worker->job.get() == &job) spawner_.kill_worker(id);
  }
}

void Node::stop_job(const std::shared_ptr<Job>& job, std::uint64_t request) {
  if (std::exchange(job->stopping, true)) return;
  for (const auto& [id, worker] : workers_) {
    if (worker->job == job) end_worker(worker);
  }
  background_.spawn(stop_when_idle(this, job, request));
}

async::Async<void> Node::stop_when_idle(Node* self, std::shared_ptr<Job> job, std::uint64_t request) {
  const auto deadline = async::Deadline::after(kStopTime + kReasonTime, self->executor_);
  const auto has_workers = [&] {
    for (const auto& [id, worker] : self->workers_) {
      if (worker->job == job) return true;
    }
    return false;
  };
  while (has_workers() && !deadline.expired(self->executor_.now())) {
    const auto slept = co_await async::sleep(1ms);
    if (!slept) co_return;
  }
  self->end_job(*job);
  job->driver->respond(request, wire::Done{});
}

// ---- Workers

std::shared_ptr<Node::Worker> Node::start_worker(const std::shared_ptr<Job>& job, ActorId actor,
                                                 std::uint32_t incarnation) {
  auto [mine, its] = process_.network().connect(false);
  auto worker = std::make_shared<Worker>();
  worker->id = WorkerId{random_u64()};
  worker->job = job;
  worker->actor = actor;
  worker->incarnation = incarnation;
  worker->control = add_peer(std::move(mine));
  workers_.emplace(worker->id, worker);
  clients_.insert_or_assign(worker->control.get(), Client{worker->control, job, worker, CallerId{worker->id.value()}});
  spawner_.spawn_worker(worker->id, std::move(its));
  return worker;
}

void Node::end_worker(const std::shared_ptr<Worker>& worker) {
  if (!worker->ready) return spawner_.kill_worker(worker->id);
  worker->control->send(wire::EndWorker{});
  executor_.run_at(executor_.now() + kStopTime, [this, weak = std::weak_ptr{worker}] {
    if (const auto late = weak.lock()) spawner_.kill_worker(late->id);
  });
}

// Every caller is on a machine of its own: its connection may be cut although both live.
void Node::hand_over(Worker& worker, const Client& user, std::uint64_t request) {
  const bool remote = static_cast<bool>(worker.actor);
  auto [to_worker, to_user] = process_.network().connect(remote);
  if (!worker.actor) worker.user = user;
  const auto making = makings_.find(worker.actor);
  std::vector<Fd> for_worker;
  for_worker.push_back(std::move(to_worker));
  std::vector<Fd> for_user;
  for_user.push_back(std::move(to_user));
  worker.control->send(wire::ServeCaller{user.caller, worker.actor, worker.incarnation, remote}, std::move(for_worker));
  const std::int32_t retries = making == makings_.end() ? 0 : making->second.start.max_task_retries;
  user.peer->respond(request, wire::WorkerReady{worker.id, worker.actor, worker.incarnation, 0, retries, remote},
                     std::move(for_user));
}

void Node::reconnect(Worker& worker) {
  for (const auto id : std::exchange(worker.reconnecting, {})) {
    apply(actors_.connect(id, worker.actor, worker.incarnation));
  }
}

scheduler::ActorRequestId Node::expect_actor(const Client& client, std::uint64_t request) {
  const scheduler::ActorRequestId id{++last_id_};
  actor_requests_.emplace(id, Asked{client, request});
  return id;
}

void Node::apply(const scheduler::ActorEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const start = std::get_if<scheduler::StartIncarnation>(&effect)) {
      const auto making = makings_.find(start->actor);
      if (making != makings_.end()) start_worker(making->second.job, start->actor, start->incarnation);
    } else if (const auto* const end = std::get_if<scheduler::EndIncarnation>(&effect)) {
      for (const auto& [id, worker] : std::map{workers_}) {
        if (worker->actor != end->actor || worker->incarnation != end->incarnation) continue;
        if (end->kill) {
          spawner_.kill_worker(id);
        } else {
          end_worker(worker);
        }
      }
    } else if (const auto* const ready = std::get_if<scheduler::ActorReady>(&effect)) {
      const auto asked = actor_requests_.extract(ready->request);
      if (asked.empty()) continue;
      if (const auto worker = find_incarnation(ready->actor, ready->incarnation)) {
        hand_over(*worker, asked.mapped().client, asked.mapped().request);
      } else {
        asked.mapped().client.peer->respond(asked.mapped().request,
                                            Error{ErrorCode::kActorDied, "the actor's process has just ended"});
      }
    } else if (const auto* const refused = std::get_if<scheduler::ActorRefused>(&effect)) {
      const auto asked = actor_requests_.extract(refused->request);
      if (!asked.empty()) asked.mapped().client.peer->respond(asked.mapped().request, refused->why);
    }
  }
  if (const auto next = actors_.next_tick()) tick_at(*next);
}

void Node::tick_at(TimePoint when) {
  if (when >= next_tick_) return;
  next_tick_ = when;
  executor_.run_at(when, [this, when] {
    if (next_tick_ == when) next_tick_ = TimePoint::max();
    apply(actors_.tick(executor_.now()));
  });
}

void Node::apply(const scheduler::LeaseEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const grant = std::get_if<scheduler::Grant>(&effect)) {
      const auto worker = find_worker(grant->worker);
      auto asked = lease_requests_.extract(grant->request);
      if (asked.empty() || worker == nullptr) continue;
      hand_over(*worker, asked.mapped().client, asked.mapped().request);
    } else if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
      if (const auto job = jobs_.find(start->job); job != jobs_.end()) {
        starting_.emplace(start->request, start_worker(job->second, ActorId{}, 0));
      }
    } else if (const auto* const end = std::get_if<scheduler::EndWorker>(&effect)) {
      if (const auto worker = find_worker(end->worker)) end_worker(worker);
    }
  }
}

void Node::tick_leases() {
  if (leases_.idle() == 0 || std::exchange(ticks_leases_, true)) return;
  executor_.run_at(executor_.now() + 1s, [this] {
    ticks_leases_ = false;
    apply(leases_.tick(executor_.now()));
    tick_leases();
  });
}

}  // namespace pharos::simulator
