#include "node/node.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <pharos/base/log.hpp>

#include "link/said_again.hpp"
#include "node/demands.hpp"
#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kIdleWorkerTime = 10s;
constexpr auto kHeadTime = 10s;  // for the head to answer

// Tasks that wait for other tasks keep their processes. Past this many processes a waiting task runs those tasks in its
// own process.
std::uint32_t workers_max(std::uint32_t cpus) {
  return 4 * cpus + 4;
}

}  // namespace

// ---- Start and end of the node

Node::Node(async::Executor& executor, Host& host, const Settings& settings, Tell tell_head, Queued queued_to_head)
    : executor_{executor},
      host_{host},
      settings_{settings},
      tell_head_{std::move(tell_head)},
      queued_to_head_{std::move(queued_to_head)},
      leases_{settings.machine.resources, workers_max(whole_cpus(settings.machine.resources)), kIdleWorkerTime},
      remote_requests_{
          [this](scheduler::LeaseRequestId each) { return lease_requests_.contains(each) && !leases_.starts(each); }},
      logs_{[&host](auto work, auto done) { host.run_blocking(std::move(work), std::move(done)); }, settings.logs,
            settings.id, settings.head_address.empty() ? "head" : "node"},
      store_{executor, host, settings.object_store, [this](NodeId node) { return find_node(this, node); }},
      background_{executor} {}

Node::~Node() = default;

// Orphans of workers become children of this process, and so do workers whose zygote is gone.
void Node::on_child_ended(pid_t pid, int status) {
  for (const auto& [id, worker] : workers_) {
    if (worker->pid == pid) process_ended(*worker, status);
  }
  for (const auto& [id, job] : jobs_) {
    if (job->zygote_pid != pid) continue;
    job->zygote_pid = 0;
    job->zygote_ready.fail(
        Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote: " + describe_end(status)});
  }
}

void Node::close() {
  background_.cancel();
  store_.close();
  waiting_hand_overs_.clear();
  // Peers are closed in an order that is the same in each run of the simulator, unlike that of their addresses.
  std::multimap<std::pair<JobId, CallerId>, std::shared_ptr<net::Peer>> peers;
  for (const auto& [peer, client] : clients_) {
    peers.emplace(std::pair{client.job == nullptr ? JobId{} : client.job->id, client.caller}, client.peer);
  }
  for (const auto& [whose, peer] : peers) peer->close();
}

std::string Node::leftovers() const {
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "node " + to_string(settings_.id) + ": " + what + ": " + std::to_string(n) + '\n';
  };
  count("connections", clients_.size());
  count("jobs", jobs_.size());
  count("workers", workers_.size());
  count("programs that come", coming_programs_.size());
  count("lease requests", lease_requests_.size());
  count("questions to the head", asked_.size());
  count("requests that others are asked for", remote_requests_.asked());
  count("far leases", far_leases_.size());
  count("starting", starting_.size());
  count("hand-overs", waiting_hand_overs_.size() + hand_overs_.under_way());
  count("bundles", bundles_.size());
  count("inspections", inspections_.size());
  count("questions for nodes", node_questions_.size());
  count("coroutines", background_.size());
  if (leases_.left() != leases_.total()) left += "not given back: all but " + leases_.left().to_string() + '\n';
  return left + store_.leftovers();
}

// ---- Connections

std::shared_ptr<net::Peer> Node::add_driver(Fd socket) {
  return add_peer(std::move(socket));
}

void Node::when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then) {
  when_gone_.emplace(driver.get(), std::move(then));
}

std::shared_ptr<net::Peer> Node::add_peer(Fd socket) {
  return add_client(host_.make_link(std::move(socket), net::Descriptors::kAccepted));
}

std::shared_ptr<net::Peer> Node::add_client(const std::shared_ptr<net::Link>& link) {
  auto peer = net::Peer::make(executor_, link, *this);
  clients_.emplace(peer.get(), Client{peer, nullptr, nullptr, {}});
  link->start(peer);
  return peer;
}

void Node::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto found = clients_.find(&from);
  if (found == clients_.end()) return;
  const Client client = found->second;
  if (client.job == nullptr) {
    if (std::holds_alternative<wire::RegisterJob>(parcel.message) && request) {
      return background_.spawn(register_job(this, client.peer, std::move(parcel), *request));
    }
    if (request && on_question(client, parcel.message, *request)) return;
    if (request) from.respond(*request, Error{ErrorCode::kFailedPrecondition, "no job was registered here"});
    return;
  }
  if (!client.caller) return on_zygote_message(*client.job, std::move(parcel));
  if (store_.on_message(client.peer, client.caller, parcel, request)) return;
  if (client.worker == nullptr && client.job->driver == nullptr) {  // the driver was told that its job has ended
    if (request) from.respond(*request, Error{ErrorCode::kRuntimeStopped, "the program has ended"});
    return;
  }
  const bool known =
      on_caller_message(client, parcel, request) ||
      (client.worker != nullptr ? on_worker_message(client, parcel) : on_driver_message(client, parcel, request));
  if (!known && request) {
    from.respond(*request, Error{ErrorCode::kUnsupported,
                                 "a caller cannot ask for " + std::string{wire::name_of(parcel.message)}});
  }
}

bool Node::on_caller_message(const Client& client, net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (const auto* const lease = std::get_if<wire::LeaseWorker>(&parcel.message); lease != nullptr && request) {
    return on_lease_request(client, *lease, *request);
  }
  if (const auto* const returned = std::get_if<wire::ReturnLease>(&parcel.message)) {
    if (far_leases_.erase(returned->worker) != 0) {
      tell_head(wire::ReturnLease{returned->worker, client.caller, returned->broken});
    } else {
      take_back(*returned, client.caller);
    }
  } else if (std::holds_alternative<wire::Inspect>(parcel.message)) {
    if (request) background_.spawn(inspect(this, client, *request));
  } else {
    return ask_head(client, parcel.message, request);
  }
  return true;
}

bool Node::on_driver_message(const Client& client, const net::Parcel& parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::Done>(parcel.message)) {
    note_shown(*client.job);
    return true;
  }
  if (!std::holds_alternative<wire::Stop>(parcel.message) || !request) return false;
  if (!std::exchange(client.job->asks_to_stop, true)) background_.spawn(stop_job(this, client.job, *request));
  return true;
}

bool Node::on_worker_message(const Client& client, net::Parcel& parcel) {
  if (const auto* const blocked = std::get_if<wire::WorkerBlocked>(&parcel.message)) {
    apply(blocked->blocked ? leases_.blocked(client.worker->id) : leases_.unblocked(client.worker->id));
  } else if (const auto* const forked = std::get_if<wire::WorkerForked>(&parcel.message)) {
    know_process(*client.worker, forked->pid, std::move(parcel.descriptors.front()));
  } else if (const auto* const made = std::get_if<wire::ActorConstructed>(&parcel.message)) {
    if (made->actor != client.worker->actor || made->incarnation != client.worker->incarnation) return true;
    client.worker->constructed = !made->failure;
    tell_head(*made);
  } else {
    return false;
  }
  return true;
}

void Node::on_peer_closed(net::Peer& peer, const Error&) {
  const auto found = clients_.find(&peer);
  if (found == clients_.end()) return;
  const Client client = found->second;  // keeps the peer until this function is done
  clients_.erase(found);
  if (const auto watched = when_gone_.extract(&peer); !watched.empty()) watched.mapped()();
  if (client.job == nullptr) {
    forget_questions([&](const Client& each) { return each.peer == client.peer; });
    return;
  }
  if (client.worker != nullptr) {
    end_caller(client);
    return background_.spawn(conclude_worker(this, client.worker));
  }
  if (client.caller) return end_driver(client.job);
  client.job->zygote = nullptr;
  for (const auto& [id, worker] : workers_) {
    if (worker->job == client.job) worker->crash.fail(Error{ErrorCode::kUnavailable, "its zygote has ended"});
  }
  // Coroutines that wait for this zygote are told of its end; the next zygote gets a new completion.
  client.job->zygote_ready.fail(Error{ErrorCode::kUnavailable, "the program ended while it was loaded as a zygote"});
  if (!client.job->ended && client.job->loaded) background_.spawn(restart_zygote(this, client.job));
}

// The caller has ended: its requests are forgotten, and its leases and holds end.
void Node::end_caller(const Client& client) {
  std::erase_if(lease_requests_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  forget_questions([&](const Client& each) { return each.caller == client.caller; });
  std::erase_if(far_leases_, [&](const auto& entry) { return entry.second.client.caller == client.caller; });
  apply(leases_.lessee_ended(client.caller));
  forget_holds(client.caller);
  tell_head(wire::EndCaller{client.caller});
}

std::vector<std::pair<ActorId, std::uint32_t>> Node::incarnations() const {
  std::vector<std::pair<ActorId, std::uint32_t>> all;
  for (const auto& [id, worker] : workers_) {
    if (worker->actor && !worker->failed_to_start) all.emplace_back(worker->actor, worker->incarnation);
  }
  return all;
}

std::string Node::check() const {
  std::string wrong = leases_.check();
  std::size_t expected = bundles_.size() + leaving_.size();
  for (const auto& [reservation, starting] : starting_) expected += starting.start.group ? 0 : 1;
  for (const auto& [id, worker] : workers_) {
    if (!worker->reservation) continue;
    const auto bundle = bundles_.find(worker->bundle);
    const bool is_held = (bundle != bundles_.end() && bundle->second.held) || leaving_.contains(worker->bundle);
    const bool has_its_part = worker->bundle.first ? is_held : leases_.holds(worker->reservation);
    if (!has_its_part) wrong += "a process of actor " + to_string(worker->actor) + " has what is not its own\n";
    expected += worker->bundle.first ? 0 : 1;
  }
  if (leases_.reservations() == expected) return wrong;
  return wrong + std::to_string(leases_.reservations()) + " reservations are there, and " + std::to_string(expected) +
         " should be\n";
}

// ---- The head

bool Node::ask_head(const Client& client, wire::Message& message, std::optional<std::uint64_t> request) {
  wire::Asker* const asker = asker_of(message);
  if (asker == nullptr) return false;
  *asker = {client.job->id, client.caller, ++last_number_};
  note_holds(client.caller, message);
  forget_undone(message);
  if (request || std::holds_alternative<wire::PromiseActor>(message)) {
    asked_.emplace(asker->number, Asked{.client = client, .request = request, .question = message});
  }
  tell_head(std::move(message));
  return true;
}

void Node::tell_head(wire::Message message) {
  if (is_said_again(message)) unconfirmed_.push_back(message);
  tell_head_(std::move(message));
}

void Node::on_head_message(wire::Message message) {
  if (auto* const start = std::get_if<wire::StartIncarnation>(&message)) {
    reserve(std::move(*start));
  } else if (const auto* const end = std::get_if<wire::EndIncarnation>(&message)) {
    end_incarnation(*end);
  } else if (const auto* const alive = std::get_if<wire::ActorAlive>(&message)) {
    on_actor_alive(*alive);
  } else if (const auto* const found = std::get_if<wire::ActorFound>(&message)) {
    if (const auto asked = asked_.extract(found->number); !asked.empty()) {
      note_found(asked.mapped(), found->actor);
      answer(asked.mapped(), *found);
    }
  } else if (const auto* const ended = std::get_if<wire::IncarnationEnded>(&message)) {
    tell_holders(*ended);
  } else if (auto* const inspected = std::get_if<wire::Inspected>(&message)) {
    const auto inspection = inspections_.find(inspected->number);
    if (inspection == inspections_.end()) return;
    inspection->second->actors = std::move(inspected->workers);
    inspection->second->answer.cluster = std::move(inspected->cluster);
    inspection->second->take_one();
  } else if (auto* const refused = std::get_if<wire::Refused>(&message)) {
    if (const auto asked = asked_.extract(refused->number); !asked.empty()) {
      if (asked.mapped().waits_here) return remote_requests_.found_none(asked.mapped().waits_here);
      note_found(asked.mapped(), {});
      refuse(asked.mapped(), refused->why);
    }
    if (auto asked = node_questions_.extract(refused->number); !asked.empty()) asked.mapped().found.fail(refused->why);
  } else if (const auto* const node = std::get_if<wire::NodeFound>(&message)) {
    if (auto asked = node_questions_.extract(node->number); !asked.empty())
      asked.mapped().found.complete(node->address);
  } else if (const auto* const ready = std::get_if<wire::GroupReady>(&message)) {
    if (const auto asked = asked_.extract(ready->number); !asked.empty()) answer(asked.mapped(), *ready);
  } else if (const auto* const rows = std::get_if<wire::Rows>(&message)) {
    if (const auto asked = asked_.extract(rows->number); !asked.empty()) answer(asked.mapped(), *rows);
  } else if (const auto* const hold = std::get_if<wire::HoldBundle>(&message)) {
    hold_bundle(*hold);
  } else if (const auto* const release = std::get_if<wire::ReleaseBundle>(&message)) {
    release_bundle({release->group, release->bundle});
  } else if (auto* const job = std::get_if<wire::AddJob>(&message)) {
    add_far_job(std::move(*job));
  } else if (const auto* const ended_job = std::get_if<wire::EndJob>(&message)) {
    if (const auto known = jobs_.find(ended_job->job); known != jobs_.end()) end_job(std::shared_ptr{known->second});
  } else if (const auto* const stop = std::get_if<wire::StopJob>(&message)) {
    background_.spawn(stop_here(this, stop->job));
  } else if (const auto* const stopped = std::get_if<wire::JobStopped>(&message)) {
    if (const auto of = jobs_.find(stopped->job); of != jobs_.end()) of->second->stopped_everywhere.complete();
  } else if (const auto* const output = std::get_if<wire::Output>(&message)) {
    forward_output(*output);
  } else if (std::holds_alternative<wire::DrainNode>(message)) {
    drain();
  } else if (const auto* const joined = std::get_if<wire::ClusterJoined>(&message)) {
    note_cluster(*joined);
  } else if (const auto* const confirmed = std::get_if<wire::Confirmed>(&message)) {
    for (; confirmed_ < confirmed->count && !unconfirmed_.empty(); ++confirmed_) unconfirmed_.pop_front();
  } else {
    on_far_lease_message(message);
  }
}

/// Asks the head for the address of another node.
async::Async<Result<std::string>> Node::find_node(Node* self, NodeId node) {
  const std::uint64_t number = ++self->last_number_;
  async::Completion<std::string> found;
  self->node_questions_.emplace(number, NodeQuestion{node, found});
  self->tell_head(wire::FindNode{node, number});
  auto address = co_await found.wait(async::Deadline::after(kHeadTime, self->executor_.now()));
  self->node_questions_.erase(number);
  if (address && address->empty()) co_return self->settings_.head_address;
  co_return address;
}

void Node::pass_on_beat(wire::Beat beat) {
  last_beat_ = beat;
  for (const auto& [id, worker] : workers_) {
    if (worker->exclusive && worker->control != nullptr) worker->control->send(beat);
  }
}

void Node::answer(const Asked& asked, const wire::Message& message) {
  if (asked.request) asked.client.peer->respond(*asked.request, message);
}

void Node::refuse(const Asked& asked, Error why) {
  if (!asked.request) return;
  if (asked.client.peer != nullptr) {
    asked.client.peer->respond(*asked.request, std::move(why));
  } else {
    tell_head(wire::Refused{*asked.request, std::move(why)});
  }
}

}  // namespace pharos::node
