#pragma once

#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_connections.hpp"
#include "head/actors/actor_places.hpp"
#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/group_table.hpp"
#include "head/job_table.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// Creates actors as callers ask: checks what they ask for, and then tells ActorTable. An actor may be promised first,
/// and is started when the arguments of its constructor are ready; or its promise is broken.
/// Owned by Head; on its strand. Keeps nothing.
class ActorMaker {
 public:
  ActorMaker(Events& events, scheduler::ActorTable& actors, const GroupTable& groups, Recovery& recovery,
             ActorPlaces& places, ActorConnections& connections, Effects& effects)
      : events_{events},
        actors_{actors},
        groups_{groups},
        recovery_{recovery},
        places_{places},
        connections_{connections},
        effects_{effects} {}

  /// Returns false if the question was refused: with kInvalidArgument, an error of ActorTable::promise(), or
  /// kFailedPrecondition if the actor of that name exists and `jobs` says that it is of another build. Otherwise
  /// answers with ActorFound: the actor, or the one of its name that exists already.
  bool promise(NodeId from, const wire::PromiseActor& promise, const JobTable& jobs);
  /// Returns whether ActorTable was asked. ActorTable answers when the actor is alive, and may still refuse. Otherwise
  /// the question was refused (kInvalidArgument, or kNotFound if its group was removed), or put off until the recovery
  /// is over.
  bool start(NodeId from, wire::StartActor start);
  /// Ignored if the actor is unknown, belongs to another job, or was started.
  void break_promise(const wire::BreakPromise& broken);

 private:
  Events& events_;
  scheduler::ActorTable& actors_;
  const GroupTable& groups_;
  Recovery& recovery_;
  ActorPlaces& places_;
  ActorConnections& connections_;
  Effects& effects_;
};

}  // namespace pharos::node::head
