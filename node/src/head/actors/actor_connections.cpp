#include "head/actors/actor_connections.hpp"

#include <chrono>
#include <utility>

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

constexpr auto kReasonTime = 50ms;      // between the end of a connection and the report of how the process ended
constexpr auto kFarReasonTime = 500ms;  // the same, if the process is at another node than the caller

}  // namespace

scheduler::ActorRequestId ActorConnections::expect_answer(NodeId from, const wire::Asker& asker) {
  const scheduler::ActorRequestId id{numbers_.next()};
  requests_.emplace(id, Request{from, asker});
  return id;
}

void ActorConnections::connect(NodeId from, const wire::ConnectActor& connect) {
  const auto request = expect_answer(from, connect.asker);
  const auto* const seen = places_.running().find(connect.actor, connect.seen);
  if (seen == nullptr) return effects_.apply(actors_.connect(request, connect.actor));
  lost_[connect.actor].push_back(request);
  if (nodes_.is_silent(seen->node)) return;
  events_.run_later(
      seen->node == from ? kReasonTime : kFarReasonTime,
      [this, actor = connect.actor, incarnation = connect.seen] { connect_again_if_running(actor, incarnation); });
}

void ActorConnections::connect_again_if_running(ActorId actor, std::uint32_t incarnation) {
  const auto* const running = places_.running().find(actor, incarnation);
  if (running != nullptr && !nodes_.is_silent(running->node)) connect_again(actor);
}

void ActorConnections::connect_again(ActorId actor) {
  const auto lost = lost_.extract(actor);
  if (lost.empty()) return;
  for (const auto request : lost.mapped()) {
    if (requests_.contains(request)) effects_.apply(actors_.connect(request, actor));
  }
}

void ActorConnections::connect_again_at(NodeId node) {
  for (const auto& [actor, incarnation] : places_.running().at(node)) {
    connect_again_if_running(actor, incarnation);
  }
}

void ActorConnections::answer(const scheduler::ActorReady& ready) {
  const auto asked = requests_.extract(ready.request);
  if (asked.empty()) return;
  const auto* const running = places_.running().find(ready.actor, ready.incarnation);
  PHAROS_CHECK(running != nullptr, ready.actor);  // ActorTable hears of its end in the same step
  const auto* const last_end = places_.find_last_end(ready.actor);
  events_.tell(
      asked.mapped().node,
      wire::ActorAlive{asked.mapped().asker.number, ready.actor, ready.incarnation, running->node,
                       places_.find_making(ready.actor)->max_task_retries, last_end == nullptr ? "" : last_end->reason,
                       nodes_.address_of(running->node), last_end != nullptr && last_end->out_of_memory});
}

void ActorConnections::refuse(const scheduler::ActorRefused& refused) {
  const auto asked = requests_.extract(refused.request);
  if (!asked.empty()) events_.tell(asked.mapped().node, wire::Refused{asked.mapped().asker.number, refused.why});
}

void ActorConnections::end_caller(CallerId caller) {
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.asker.caller != caller) return false;
    actors_.drop_request(entry.first);
    return true;
  });
}

void ActorConnections::end_job(JobId job) {
  std::erase_if(requests_, [job](const auto& entry) { return entry.second.asker.job == job; });
}

}  // namespace pharos::node::head
