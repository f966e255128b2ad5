#include "head.hpp"

#include <chrono>
#include <utility>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kReasonTime = 50ms;  // between a connection's end and the word of how the process ended
constexpr auto kLetGoTime = 20ms;   // before a handle that is let go of counts

}  // namespace

void Head::add_node(NodeId node, Tell tell) {
  nodes_.emplace(node, std::move(tell));
}

void Head::tell(NodeId node, wire::Message message) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) found->second(std::move(message));
}

void Head::on_message(NodeId from, wire::Message message) {
  if (auto* const job = std::get_if<wire::AddJob>(&message)) {
    jobs_.emplace(job->job, Job{from, std::move(job->program)});
  } else if (const auto* const ended_job = std::get_if<wire::EndJob>(&message)) {
    end_job(ended_job->job);
  } else if (const auto* const ended_caller = std::get_if<wire::EndCaller>(&message)) {
    end_caller(ended_caller->caller);
  } else if (const auto* const made = std::get_if<wire::ActorConstructed>(&message)) {
    apply(made->failure ? actors_.constructor_failed(made->actor, made->incarnation, *made->failure)
                        : actors_.incarnation_started(made->actor, made->incarnation));
  } else if (const auto* const ended = std::get_if<wire::IncarnationEnded>(&message)) {
    incarnation_ended(ended->actor, ended->incarnation, ended->reason);
  } else {
    on_question(from, message);
  }
}

void Head::on_question(NodeId from, wire::Message& message) {
  if (auto* const start = std::get_if<wire::StartActor>(&message)) {
    start_actor(from, std::move(*start));
  } else if (const auto* const connect = std::get_if<wire::ConnectActor>(&message)) {
    connect_actor(from, *connect);
  } else if (const auto* const find = std::get_if<wire::FindActor>(&message)) {
    find_actor(from, *find);
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&message)) {
    hold_actor(*hold);
  } else if (const auto* const inspect = std::get_if<wire::Inspect>(&message)) {
    describe_actors(from, inspect->asker);
  } else if (const auto* const kill = std::get_if<wire::KillActor>(&message)) {
    const auto* const spec = actors_.find_spec(kill->actor);
    if (spec != nullptr && spec->job == kill->asker.job) apply(actors_.kill(kill->actor, "its program ended it"));
    forget_if_over(kill->actor);
  }
}

// ---- What callers ask

scheduler::ActorRequestId Head::expect_answer(NodeId from, const wire::Asker& asker) {
  const scheduler::ActorRequestId id{++last_request_};
  requests_.emplace(id, Request{from, asker});
  return id;
}

void Head::start_actor(NodeId from, wire::StartActor start) {
  if (!jobs_.contains(start.asker.job)) {
    return tell(from, wire::Refused{start.asker.number, {ErrorCode::kRuntimeStopped, "the program has ended"}});
  }
  const scheduler::ActorSpec spec{.job = start.asker.job,
                                  .label = start.label,
                                  .name = start.name,
                                  .name_space = start.name_space,
                                  .type = start.type,
                                  .max_restarts = start.max_restarts,
                                  .detached = start.detached};
  const ActorId actor = start.actor;
  const bool get_if_exists = start.get_if_exists;
  const CallerId creator = start.asker.caller;
  const auto request = expect_answer(from, start.asker);
  makings_.try_emplace(actor, std::move(start));
  apply(actors_.create(request, actor, spec, get_if_exists, creator));
  forget_if_over(actor);
}

void Head::connect_actor(NodeId from, const wire::ConnectActor& connect) {
  const auto request = expect_answer(from, connect.asker);
  Running* const lost = find_running(connect.actor, connect.seen);
  if (lost == nullptr) return apply(actors_.connect(request, connect.actor, connect.seen));
  // Nearly always the process has died, and that is known in a moment.
  lost->reconnecting.push_back(request);
  reactor_.run_at(reactor_.now() + kReasonTime,
                  [this, actor = connect.actor, seen = connect.seen] { reconnect(actor, seen); });
}

void Head::reconnect(ActorId actor, std::uint32_t incarnation) {
  Running* const running = find_running(actor, incarnation);
  if (running == nullptr) return;
  for (const auto request : std::exchange(running->reconnecting, {})) {
    if (requests_.contains(request)) apply(actors_.connect(request, actor, incarnation));
  }
}

void Head::find_actor(NodeId from, const wire::FindActor& find) {
  const auto found = actors_.find(find.name_space, find.name, find.type, find.asker.caller);
  if (found) {
    tell(from, wire::ActorFound{*found, actors_.find_spec(*found)->label, find.asker.number});
  } else {
    tell(from, wire::Refused{find.asker.number, found.error()});
  }
}

void Head::hold_actor(const wire::HoldActor& hold) {
  const auto count = [this, hold] {
    apply(actors_.hold(hold.actor, hold.asker.caller, hold.count));
    forget_if_over(hold.actor);
  };
  if (hold.count >= 0) return count();
  // A handle that was passed on may be let go of before its new holder is heard.
  reactor_.run_at(reactor_.now() + kLetGoTime, count);
}

void Head::describe_actors(NodeId from, const wire::Asker& asker) {
  wire::Inspected answer{.number = asker.number};
  for (const auto& [actor, making] : makings_) {
    if (making.asker.job != asker.job) continue;
    answer.workers.push_back({.actor = actor, .label = making.label, .state = std::string{actors_.describe(actor)}});
  }
  tell(from, std::move(answer));
}

void Head::end_caller(CallerId caller) {
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.asker.caller != caller) return false;
    actors_.drop_request(entry.first);
    return true;
  });
  apply(actors_.caller_ended(caller));
}

void Head::end_job(JobId job) {
  if (jobs_.erase(job) == 0) return;
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.asker.job == job; });
  apply(actors_.job_ended(job));
  std::erase_if(makings_, [&](const auto& entry) {
    if (entry.second.asker.job != job) return false;
    last_ends_.erase(entry.first);
    return true;
  });
}

// ---- The life of actors

Head::Running* Head::find_running(ActorId actor, std::uint32_t incarnation) {
  const auto found = running_.find(actor);
  return found == running_.end() || found->second.incarnation != incarnation ? nullptr : &found->second;
}

void Head::apply(const scheduler::ActorEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const start = std::get_if<scheduler::StartIncarnation>(&effect)) {
      place(start->actor, start->incarnation);
    } else if (const auto* const end = std::get_if<scheduler::EndIncarnation>(&effect)) {
      const Running* const running = find_running(end->actor, end->incarnation);
      if (running != nullptr) tell(running->node, wire::EndIncarnation{end->actor, end->incarnation, end->kill});
    } else if (const auto* const ready = std::get_if<scheduler::ActorReady>(&effect)) {
      const auto asked = requests_.extract(ready->request);
      const Running* const running = find_running(ready->actor, ready->incarnation);
      if (asked.empty()) continue;
      const auto last_end = last_ends_.find(ready->actor);
      PHAROS_CHECK(running != nullptr, ready->actor);  // its end is told to the table and forgotten here at once
      tell(asked.mapped().node, wire::ActorAlive{asked.mapped().asker.number, ready->actor, ready->incarnation,
                                                 running->node, makings_.at(ready->actor).max_task_retries,
                                                 last_end == last_ends_.end() ? "" : last_end->second});
    } else if (const auto* const refused = std::get_if<scheduler::ActorRefused>(&effect)) {
      const auto asked = requests_.extract(refused->request);
      if (!asked.empty()) tell(asked.mapped().node, wire::Refused{asked.mapped().asker.number, refused->why});
    }
  }
  if (const auto next = actors_.next_tick()) tick_actors_at(*next);
}

void Head::place(ActorId actor, std::uint32_t incarnation) {
  const wire::StartActor& making = makings_.at(actor);
  const NodeId node = jobs_.at(making.asker.job).node;
  running_.insert_or_assign(actor, Running{incarnation, node, {}});
  tell(node, wire::StartIncarnation{actor, incarnation, making.asker.job, making.label, making.constructor,
                                    making.arguments, making.in_pieces});
}

void Head::incarnation_ended(ActorId actor, std::uint32_t incarnation, const std::string& reason) {
  if (find_running(actor, incarnation) == nullptr) return;
  const Running ended = std::move(running_.extract(actor).mapped());
  last_ends_[actor] = reason;
  apply(actors_.incarnation_ended(actor, incarnation, reason, reactor_.now()));
  for (const auto request : ended.reconnecting) {
    if (requests_.contains(request)) apply(actors_.connect(request, actor, incarnation));
  }
  forget_if_over(actor);
}

void Head::forget_if_over(ActorId actor) {
  if (actors_.lives(actor)) return;
  makings_.erase(actor);
  last_ends_.erase(actor);
}

void Head::tick_actors_at(TimePoint when) {
  if (when >= next_tick_) return;
  next_tick_ = when;
  reactor_.run_at(when, [this, when] {
    if (next_tick_ == when) next_tick_ = TimePoint::max();
    apply(actors_.tick(reactor_.now()));
  });
}

}  // namespace pharos::node
