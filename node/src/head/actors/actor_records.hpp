#pragma once

#include <map>
#include <optional>
#include <string>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_places.hpp"
#include "head/events.hpp"
#include "head/job_table.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// How the head records its actors, and restores them from the records. An actor has one record that says how it is
/// made, or that it is promised; and from its first incarnation on one of its life so far, or of its end.
/// Owned by Head; on its strand. Keeps nothing, and does nothing in a head without records. The changes become durable
/// at the end of the event (Events).
class ActorRecords {
 public:
  ActorRecords(Events& events, scheduler::ActorTable& actors, scheduler::Placement& placement, const JobTable& jobs,
               const Recovery& recovery, ActorPlaces& places)
      : events_{events}, actors_{actors}, placement_{placement}, jobs_{jobs}, recovery_{recovery}, places_{places} {}

  /// Records the life of an actor that has changed, or erases what is recorded of an actor that is forgotten.
  void write(ActorId actor);
  /// Adds what the records have to contain, as Head::recorded().
  void add_records(std::map<std::string, std::optional<wire::Message>>& to) const;
  /// Restores an actor from its records, after jobs, nodes and groups. Returns false, and restores nothing, if the
  /// records do not fit; the caller then sets them aside.
  bool restore(const wire::ActorLife* life, const wire::StartActor* making, const wire::PromiseActor* promise);

 private:
  std::optional<wire::ActorLife> life_record(ActorId actor) const;
  bool restore_seat(const wire::ActorLife& life);

  Events& events_;
  scheduler::ActorTable& actors_;
  scheduler::Placement& placement_;
  const JobTable& jobs_;
  const Recovery& recovery_;
  ActorPlaces& places_;
};

}  // namespace pharos::node::head
