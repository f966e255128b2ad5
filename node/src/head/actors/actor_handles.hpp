#pragma once

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/wire/message.hpp>

#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/job_table.hpp"

namespace pharos::node::head {

/// What callers do with handles of actors: they find an actor by its name, hold and release it, and end it.
/// Owned by Head; on its strand. Keeps nothing.
class ActorHandles {
 public:
  ActorHandles(Events& events, scheduler::ActorTable& actors, const JobTable& jobs, Effects& effects)
      : events_{events}, actors_{actors}, jobs_{jobs}, effects_{effects} {}

  /// Answers with ActorFound, and the caller then holds the actor once more; or with Refused: kNotFound,
  /// kInvalidArgument if the actor has another type, kFailedPrecondition if it belongs to another build of the program.
  /// A question without a type is not refused for these two reasons.
  void find_for(NodeId from, const wire::FindActor& find);
  /// Counts the holds, and answers with ActorHeld. A release counts 20 ms later, without an answer.
  void hold_for(NodeId from, const wire::HoldActor& hold);
  /// Sets how often a caller holds an actor, as its node has reported.
  void restore_hold(const wire::Report::Hold& hold);
  /// Ends an actor, without an answer. Ignored if the actor is unknown. An actor of another program that is not
  /// detached goes on, and only the log says so.
  void kill(const wire::KillActor& kill);

 private:
  Result<ActorId> find(const wire::FindActor& find);

  Events& events_;
  scheduler::ActorTable& actors_;
  const JobTable& jobs_;
  Effects& effects_;
};

}  // namespace pharos::node::head
