#include <algorithm>
#include <chrono>

#include <pharos/async/sleep.hpp>

#include "node/demands.hpp"
#include "node/descriptions.hpp"
#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

Error too_many_wait() {
  return {ErrorCode::kUnavailable, "too many callers wait for connections to processes of this node", "Try again."};
}

constexpr auto kReachTime = 3s;
constexpr auto kAskAgainTime = 200ms;
constexpr auto kHeadWaits = 3s;       // a head that answers later than this has waited for a node that was away
constexpr auto kReachPatience = 15s;  // to reach an actor: longer than it takes to find that its node is lost

scheduler::Allotment allotment_of(const wire::Amounts& amounts, const std::vector<wire::GpuShare>& gpus) {
  return {scheduler::Resources{amounts}, shares_of(gpus)};
}

}  // namespace

// ---- Callers that ask for an actor

void Node::on_actor_alive(const wire::ActorAlive& alive) {
  const auto asked = asked_.find(alive.number);
  if (asked == asked_.end() || asked->second.reaching) return;
  const Client client = asked->second.client;
  // The head has not answered at once, so it has waited for that node, which has all its time again.
  if (executor_.now() - asked->second.asked_at >= kHeadWaits) asked->second.asked_again.reset();
  if (const auto worker = find_incarnation(alive.actor, alive.incarnation); worker != nullptr && !worker->crashed) {
    return hand_over_actor(worker->id, alive, std::move(asked_.extract(asked).mapped()));
  }
  if (alive.node != settings_.id) {
    asked->second.reaching = true;
    return background_.spawn(reach_actor(this, alive));
  }
  // The process has just ended, and the head is about to hear of it; after a crash, once it is known where it crashed.
  ask_again(alive, Error{ErrorCode::kUnavailable, "its process has just ended"});
}

void Node::hand_over_actor(WorkerId worker, const wire::ActorAlive& alive, Asked asked) {
  const Client client = asked.client;
  const std::uint64_t request = *asked.request;
  const bool may = hand_over(
      worker, [this, alive, asked = std::move(asked)](const std::shared_ptr<Worker>& there) -> std::optional<Served> {
        if (!clients_.contains(asked.client.peer.get())) return std::nullopt;
        if (there != nullptr) return connect(*there, asked.client, *asked.request, alive, {});
        asked_.emplace(alive.number, asked);
        ask_again(alive, Error{ErrorCode::kUnavailable, "its process has just ended"});
        return std::nullopt;
      });
  if (!may) client.peer->respond(request, too_many_wait());
}

async::Async<void> Node::reach_actor(Node* self, wire::ActorAlive alive) {
  const auto found = self->asked_.find(alive.number);
  if (found == self->asked_.end()) co_return;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .incarnation = alive.incarnation,
                                  .caller = found->second.client.caller.value(),
                                  .actor = alive.actor.value()};
  auto socket = co_await connect_far(self, alive.node, alive.address, introduction);
  if (!socket) {
    // The actor's node is being lost, or is in trouble for a moment. The head will know, so it is asked again.
    const auto slept = co_await async::sleep(kAskAgainTime);
    if (slept) self->ask_again(alive, socket.error());
    co_return;
  }
  const auto asked = self->asked_.extract(alive.number);
  if (asked.empty()) co_return;
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  asked.mapped().client.peer->respond(*asked.mapped().request,
                                      wire::WorkerReady{WorkerId{}, alive.actor, alive.incarnation, 0,
                                                        alive.max_task_retries, true, alive.ended, alive.out_of_memory},
                                      std::move(descriptors));
}

void Node::ask_again(const wire::ActorAlive& alive, const Error& why) {
  const auto asked = asked_.find(alive.number);
  if (asked == asked_.end()) return;
  asked->second.reaching = false;
  const TimePoint now = executor_.now();
  if (!asked->second.asked_again) asked->second.asked_again = now;
  if (now - *asked->second.asked_again >= kReachPatience) {
    const Asked given_up = std::move(asked_.extract(asked).mapped());
    return refuse(given_up, why);
  }
  const Client& client = asked->second.client;
  const wire::ConnectActor question{alive.actor, alive.incarnation, {client.job->id, client.caller, alive.number}};
  asked->second.question = question;
  asked->second.asked_at = now;
  tell_head(question);
}

/// Returns a socket to a worker of another node. That node has been told for which caller it is.
async::Async<Result<Fd>> Node::connect_far(Node* self, NodeId node, std::string address, Introduction introduction) {
  const auto deadline = async::Deadline::after(kReachTime, self->executor_.now());
  const std::string place = address.empty() ? self->settings_.head_address : address;
  auto socket = co_await self->host_.reach(place, introduction, deadline);
  if (socket) co_return socket;
  co_return Error{ErrorCode::kUnavailable,
                  describe_node(node, address) + ", cannot be reached from node " + to_string(self->settings_.id) +
                      ": " + socket.error().message(),
                  "Check the network between the two nodes."};
}

void Node::serve_far(const Introduction& introduction, Fd socket) {
  using Purpose = Introduction::Purpose;
  switch (introduction.purpose) {
    case Purpose::kServeCaller: return serve_far_caller(introduction, std::move(socket));
    case Purpose::kClaims: return store_.add_neighbour(NodeId{introduction.caller}, std::move(socket));
    case Purpose::kPull:
      return host_.serve_pull(std::move(socket),
                              [this](const object_store::PullRequest& request, Host::TakePullAnswer then) {
                                answer_pull(request, std::move(then));
                              });
    case Purpose::kAsk: add_client(host_.make_link(std::move(socket), net::Descriptors::kRefused)); return;
    case Purpose::kProgram: return serve_program(JobId{introduction.caller}, std::move(socket));
    case Purpose::kJoin: break;
  }
}

// A worker that is not here has just ended. The caller sees its connection end, and asks again.
void Node::serve_far_caller(const Introduction& introduction, Fd socket) {
  const CallerId caller{introduction.caller};
  const ActorId actor{introduction.actor};
  const auto worker =
      actor ? find_incarnation(actor, introduction.incarnation) : find_worker(WorkerId{introduction.worker});
  if (worker == nullptr) return;
  hand_over(worker->id,
            [actor, caller,
             socket = std::move(socket)](const std::shared_ptr<Worker>& there) mutable -> std::optional<Served> {
              if (there == nullptr || (!actor && there->far_user != caller)) return std::nullopt;
              return Served{{caller, there->actor, there->incarnation, true, there->holding}, std::move(socket)};
            });
}

// ---- Incarnations

// The head has given these resources to the incarnation, but tasks may still use them.
void Node::reserve(wire::StartIncarnation start) {
  const scheduler::ReservationId reservation{++last_number_};
  const BundleKey key{start.group, start.bundle};
  const scheduler::Allotment allotment = allotment_of(start.amounts, start.gpus);
  starting_.emplace(reservation, Starting{std::move(start), std::nullopt, false});
  if (!key.first) return apply(leases_.reserve(reservation, allotment, executor_.now()));
  const auto bundle = bundles_.find(key);
  if (bundle == bundles_.end()) {
    const wire::StartIncarnation lost = starting_.extract(reservation).mapped().start;
    return incarnation_ended(lost.actor, lost.incarnation, reservation, "its group was removed");
  }
  if (bundle->second.held) return begin(reservation);
  bundle->second.starting.push_back(reservation);
}

void Node::begin(scheduler::ReservationId reservation) {
  starting_.at(reservation).begun = true;
  background_.spawn(start_incarnation(this, reservation));
}

// ---- Bundles of placement groups

void Node::hold_bundle(const wire::HoldBundle& hold) {
  const scheduler::ReservationId reservation{++last_number_};
  bundles_.emplace(BundleKey{hold.group, hold.bundle}, Bundle{reservation});
  apply(leases_.reserve(reservation, allotment_of(hold.amounts, hold.gpus), executor_.now()));
}

void Node::note_held(const scheduler::Reserved& reserved) {
  const auto found = std::find_if(bundles_.begin(), bundles_.end(),
                                  [&](const auto& entry) { return entry.second.reservation == reserved.reservation; });
  if (found == bundles_.end()) return;
  found->second.held = true;
  tell_head(wire::BundleHeld{found->first.first, found->first.second});
  for (const auto reservation : std::exchange(found->second.starting, {})) {
    if (starting_.contains(reservation)) begin(reservation);
  }
}

void Node::release_bundle(const BundleKey& key) {
  const auto released = bundles_.extract(key);
  if (released.empty()) return;
  leaving_.emplace(key, released.mapped().reservation);
  release_unused();
}

// A head that has started again may release a bundle before the processes in it have ended. So a bundle is given back
// only when no process uses it.
void Node::release_unused() {
  std::vector<scheduler::ReservationId> unused;
  std::erase_if(leaving_, [&](const auto& entry) {
    const BundleKey& key = entry.first;
    const bool is_used =
        std::any_of(workers_.begin(), workers_.end(),
                    [&](const auto& each) { return each.second->reservation && each.second->bundle == key; }) ||
        std::any_of(starting_.begin(), starting_.end(), [&](const auto& each) {
          const wire::StartIncarnation& start = each.second.start;
          return each.second.begun && BundleKey{start.group, start.bundle} == key;
        });
    if (!is_used) unused.push_back(entry.second);
    return !is_used;
  });
  for (const auto reservation : unused) apply(leases_.release(reservation));
}

// ---- Their processes

async::Async<void> Node::start_incarnation(Node* self, scheduler::ReservationId reservation) {
  const wire::StartIncarnation start = self->starting_.at(reservation).start;
  const std::vector<std::string> gpus = self->names_of(shares_of(start.gpus));
  const auto found = self->jobs_.find(start.job);
  const auto job = found == self->jobs_.end() ? nullptr : found->second;
  Result<std::shared_ptr<Worker>> worker = Error{ErrorCode::kRuntimeStopped, "the program has ended"};
  if (job != nullptr) {
    worker = co_await start_worker(self, job, start.actor, start.label, start.incarnation, gpus);
  }
  const auto end = self->starting_.extract(reservation).mapped().end;
  if (!worker) {
    if (job != nullptr && job->broken) {  // a restart would fail again
      self->tell_head(wire::ActorConstructed{start.actor, start.incarnation, worker.error()});
    }
    self->incarnation_ended(start.actor, start.incarnation, reservation, worker.error().message());
    co_return;
  }
  (*worker)->reservation = reservation;
  (*worker)->bundle = {start.group, start.bundle};
  (*worker)->exclusive = start.exclusive && !self->settings_.head_address.empty();
  (*worker)->may_restart = start.may_restart;
  // The last beat goes first. If the head's order has come too late, the worker finds that beat too old, and ends
  // before it constructs the actor.
  if ((*worker)->exclusive) (*worker)->control->send(self->last_beat_);
  (*worker)->control->send(wire::ConstructActor{start.actor,
                                                start.incarnation,
                                                start.constructor,
                                                start.arguments,
                                                start.in_pieces,
                                                start.name_space,
                                                {start.amounts, gpus},
                                                start.trace,
                                                (*worker)->exclusive});
  if (end) self->end_incarnation(*end);
}

void Node::end_incarnation(const wire::EndIncarnation& end) {
  if (const auto worker = find_incarnation(end.actor, end.incarnation)) {
    if (!end.kill) return end_worker(worker, std::chrono::milliseconds{end.grace_ms}, end.moves);
    return kill_worker(*worker);
  }
  const auto found = std::find_if(starting_.begin(), starting_.end(), [&](const auto& entry) {
    return entry.second.start.actor == end.actor && entry.second.start.incarnation == end.incarnation;
  });
  if (found == starting_.end()) return;
  if (found->second.begun) {
    found->second.end = end;
    return;
  }
  const scheduler::ReservationId reservation = found->first;
  starting_.erase(found);
  incarnation_ended(end.actor, end.incarnation, reservation, "the actor was given up before its process could start");
}

void Node::incarnation_ended(ActorId actor, std::uint32_t incarnation, scheduler::ReservationId reservation,
                             const std::string& reason, bool out_of_memory) {
  apply(leases_.release(reservation));
  release_unused();
  tell_head(wire::IncarnationEnded{actor, incarnation, reason, out_of_memory});
}

}  // namespace pharos::node
