// State that a node keeps in order to tell a head that has started again: which caller holds which actors, the
// questions that have no answer, and the messages that neither a question nor a report repeats.

#include <algorithm>
#include <map>
#include <utility>

#include "node/node_records.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kReportMax = 16384;  // entries of one report

/// The actor that a question makes or promises; ActorId{} for any other question.
ActorId actor_made_by(const wire::Message& question) {
  if (const auto* const start = std::get_if<wire::StartActor>(&question)) return start->actor;
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&question)) return promise->actor;
  return {};
}

/// Collects entries in as many reports as they need.
class Reports {
 public:
  template <class Entry>
  void add(std::vector<Entry> wire::Report::*list, Entry entry) {
    if (entries_++ % kReportMax == 0) all_.emplace_back();
    (all_.back().*list).push_back(std::move(entry));
  }
  std::vector<wire::Report> all() && {
    if (all_.empty()) all_.emplace_back();
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) all_[i].more = true;
    return std::move(all_);
  }

 private:
  std::vector<wire::Report> all_;
  std::size_t entries_ = 0;
};

}  // namespace

void Node::return_to_head() {
  confirmed_ = 0;
  for (const wire::Message& message : unconfirmed_) tell_head_(message);
  for (wire::Report& each : report()) tell_head_(std::move(each));
  for (const auto& [id, job] : jobs_) {
    if (job->asks_to_stop && job->driver != nullptr) tell_head_(wire::StopJob{id});
  }
  // Callers of other nodes that asked by way of the earlier head will ask again, so their requests leave the line.
  std::vector<scheduler::LeaseRequestId> of_others;
  for (auto& [id, asked] : lease_requests_) {
    if (asked.client.peer != nullptr) continue;
    asked.request.reset();
    of_others.push_back(id);
  }
  for (const scheduler::LeaseRequestId each : of_others) leaves_line(each);
  for (const auto& [number, asked] : asked_) {
    if (!asked.reaching) tell_head_(asked.question);
  }
  for (const auto& [number, asked] : node_questions_) tell_head_(wire::FindNode{asked.node, number});
  if (told_load_ && *told_load_ != wire::NodeLoad{}) tell_head_(*told_load_);
}

std::vector<wire::Report> Node::report() const {
  Reports reports;
  for (const auto& [id, job] : jobs_) reports.add(&wire::Report::jobs, id);
  std::map<CallerId, JobId> callers;  // for an order that is the same in each run of the simulator
  for (const auto& [peer, client] : clients_) {
    if (client.job != nullptr && client.caller) callers.emplace(client.caller, client.job->id);
  }
  for (const auto& [caller, job] : callers) reports.add(&wire::Report::callers, wire::Report::Caller{caller, job});
  for (const auto& [caller, actors] : holds_) {
    for (const auto& [actor, count] : actors) {
      reports.add(&wire::Report::holds, wire::Report::Hold{caller, actor, count});
    }
  }
  for (const auto& [reservation, starting] : starting_) {
    reports.add(&wire::Report::incarnations,
                wire::Report::Incarnation{starting.start.actor, starting.start.incarnation, false});
  }
  for (const auto& [id, worker] : workers_) {
    if (worker->actor) {
      reports.add(&wire::Report::incarnations,
                  wire::Report::Incarnation{worker->actor, worker->incarnation, worker->constructed});
    } else if (worker->far_user && leases_.lessee_of(id) == worker->far_user) {
      reports.add(&wire::Report::lent, wire::Report::Lease{id, worker->far_user, worker->job->id});
    }
  }
  for (const auto& [key, bundle] : bundles_) {
    reports.add(&wire::Report::bundles, wire::Report::Bundle{key.first, key.second});
    if (!bundle.held) reports.add(&wire::Report::unheld, wire::Report::Bundle{key.first, key.second});
  }
  for (const auto& [worker, lease] : far_leases_) reports.add(&wire::Report::borrowed, worker);
  for (const auto& [number, asked] : asked_) {
    if (asked.granted) reports.add(&wire::Report::borrowed, asked.granted);
    const ActorId made = actor_made_by(asked.question);
    if (made && !holds(asked.client.caller, made)) {  // the caller has let go of it before the answer
      reports.add(&wire::Report::holds, wire::Report::Hold{asked.client.caller, made, 0});
    }
  }
  return std::move(reports).all();
}

// ---- Which caller holds which actors, as the head counts it

void Node::note_holds(CallerId caller, const wire::Message& message) {
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&message)) {
    promised_.insert(promise->actor);
    change_hold(caller, promise->actor, 1);
  } else if (const auto* const start = std::get_if<wire::StartActor>(&message)) {
    if (promised_.erase(start->actor) == 0) change_hold(caller, start->actor, 1);
  } else if (const auto* const broken = std::get_if<wire::BreakPromise>(&message)) {
    promised_.erase(broken->actor);
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&message)) {
    change_hold(caller, hold->actor, hold->count);
  }
}

// A message that takes a question back: the question must not be asked again.
void Node::forget_undone(const wire::Message& message) {
  const auto* const broken = std::get_if<wire::BreakPromise>(&message);
  const auto* const removed = std::get_if<wire::RemoveGroup>(&message);
  if (broken == nullptr && removed == nullptr) return;
  const auto undone = std::find_if(asked_.begin(), asked_.end(), [&](const auto& entry) {
    const auto* const promise = std::get_if<wire::PromiseActor>(&entry.second.question);
    const auto* const place = std::get_if<wire::PlaceGroup>(&entry.second.question);
    return (broken != nullptr && promise != nullptr && promise->actor == broken->actor) ||
           (removed != nullptr && place != nullptr && place->group == removed->group);
  });
  if (undone == asked_.end()) return;
  const Asked forgotten = std::move(asked_.extract(undone).mapped());
  refuse(forgotten, Error{ErrorCode::kCancelled, removed != nullptr ? "the group was removed"
                                                                    : "the actor was given up before it was created"});
}

/// `found` is the actor of the answer; ActorId{} if the question was refused.
void Node::note_found(const Asked& asked, ActorId found) {
  const CallerId caller = asked.client.caller;
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&asked.question)) {
    if (found == promise->actor) return;
    promised_.erase(promise->actor);
    change_hold(caller, promise->actor, -1);
  } else if (!std::holds_alternative<wire::FindActor>(asked.question)) {
    return;
  }
  if (found) change_hold(caller, found, 1);
}

bool Node::holds(CallerId caller, ActorId actor) const {
  const auto actors = holds_.find(caller);
  return actors != holds_.end() && actors->second.contains(actor);
}

void Node::change_hold(CallerId caller, ActorId actor, std::int64_t more) {
  auto& actors = holds_[caller];
  auto& count = actors[actor];
  count += more;
  if (count == 0) actors.erase(actor);
  if (actors.empty()) holds_.erase(caller);
}

void Node::forget_holds(CallerId caller) {
  const auto held = holds_.extract(caller);
  if (held.empty()) return;
  for (const auto& [actor, count] : held.mapped()) promised_.erase(actor);
}

/// Tells the callers here that hold an actor that its node was lost. They may still be connected to the actor.
void Node::tell_holders(const wire::IncarnationEnded& ended) {
  std::map<CallerId, std::shared_ptr<net::Peer>> holders;
  for (const auto& [peer, client] : clients_) {
    const auto held = holds_.find(client.caller);
    if (held != holds_.end() && held->second.contains(ended.actor)) holders.emplace(client.caller, client.peer);
  }
  for (const auto& [caller, peer] : holders) peer->send(ended);
}

}  // namespace pharos::node
