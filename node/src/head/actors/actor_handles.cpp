#include "head/actors/actor_handles.hpp"

#include <chrono>
#include <utility>

#include <pharos/base/log.hpp>

namespace pharos::node::head {
namespace {

constexpr Duration kLetGoTime = std::chrono::milliseconds{20};  // before the release of a handle counts

}  // namespace

void ActorHandles::find_for(NodeId from, const wire::FindActor& asked) {
  const auto found = find(asked);
  if (!found) return events_.tell(from, wire::Refused{asked.asker.number, found.error()});
  events_.tell(from, wire::ActorFound{*found, actors_.look_at(*found)->spec.label, asked.asker.number});
}

Result<ActorId> ActorHandles::find(const wire::FindActor& find) {
  PHAROS_TRY(const ActorId found, actors_.find(find.name_space, find.name, find.type, find.asker.caller));
  if (find.type.empty()) return found;  // the caller names no functions by their numbers
  if (auto same = jobs_.check_build(find.asker.job, actors_.look_at(found)->spec.job, find.name); !same) {
    effects_.apply(actors_.hold(found, find.asker.caller, -1));
    return std::move(same).error();
  }
  return found;
}

void ActorHandles::hold_for(NodeId from, const wire::HoldActor& hold) {
  const auto count = [this, hold] { effects_.apply(actors_.hold(hold.actor, hold.asker.caller, hold.count)); };
  // A caller that gives up a call releases the handles in its arguments, though the call may still reach the actor.
  if (hold.count < 0) return events_.run_later(kLetGoTime, count);
  count();
  events_.tell(from, wire::ActorHeld{hold.asker.number});
}

void ActorHandles::restore_hold(const wire::Report::Hold& hold) {
  effects_.apply(actors_.restore_hold(hold.actor, hold.caller, hold.count));
}

void ActorHandles::kill(const wire::KillActor& kill) {
  const auto* const state = actors_.look_at(kill.actor);
  if (state == nullptr) return;
  const scheduler::ActorSpec& spec = state->spec;
  if (spec.job != kill.asker.job && !spec.detached) {
    // The asker does not wait for an answer, so the refusal goes to the log.
    log(LogLevel::kWarn, "a program tried to end an actor of another program; the actor goes on",
        {kv("actor", spec.label), kv("program", kill.asker.job), kv("its_program", spec.job)});
    return;
  }
  if (!kill.gently) return effects_.apply(actors_.kill(kill.actor, "its program ended it"));
  effects_.apply(actors_.stop(kill.actor, kill.why.empty() ? "was told to stop" : kill.why,
                              std::chrono::milliseconds{kill.grace_ms}));
}

}  // namespace pharos::node::head
