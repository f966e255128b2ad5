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
/// Owned by Head; on its strand.
class ActorHandles {
 public:
  ActorHandles(Events& events, scheduler::ActorTable& actors, const JobTable& jobs, Effects& effects)
      : events_{events}, actors_{actors}, jobs_{jobs}, effects_{effects} {}

  void find_for(NodeId from, const wire::FindActor& find);
  void hold(const wire::HoldActor& hold);
  void restore_hold(const wire::Report::Hold& hold);
  void kill(const wire::KillActor& kill);

 private:
  Result<ActorId> find(const wire::FindActor& find);

  Events& events_;
  scheduler::ActorTable& actors_;
  const JobTable& jobs_;
  Effects& effects_;
};

}  // namespace pharos::node::head
