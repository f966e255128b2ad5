#include "head/actors/actor_records.hpp"

#include <utility>

#include "head/head_keys.hpp"
#include "head/shares.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {
namespace {

/// What ActorTable has to know of an actor to restore it.
struct RestoredActor {
  ActorId actor;
  scheduler::ActorSpec spec;
  CallerId creator{};
  scheduler::ActorLife life{};
};

/// Returns nullopt if the records do not fit each other.
std::optional<RestoredActor> read(const wire::ActorLife* life, const wire::StartActor* making,
                                  const wire::PromiseActor* promise) {
  const bool is_over = life != nullptr && life->over;
  if (!is_over && (making == nullptr) == (promise == nullptr)) return std::nullopt;
  if (!is_over && (making != nullptr) != (life != nullptr)) return std::nullopt;
  RestoredActor actor;
  if (is_over) {
    actor.spec.job = life->job;
    actor.spec.label = life->label;
  } else if (making != nullptr) {
    if (!checked(making->demand)) return std::nullopt;
    actor.spec = spec_of(*making);
    actor.creator = making->asker.caller;
  } else {
    actor.spec = spec_of(*promise);
    actor.creator = promise->asker.caller;
  }
  if (promise != nullptr) actor.actor = promise->actor;
  if (life != nullptr) {
    actor.actor = life->actor;
    actor.life = {.incarnation = life->incarnation,
                  .restarts = life->restarts,
                  .backoff = life->backoff,
                  .waits = life->waits,
                  .has_process = is_over ? bool{life->has.node} : !life->waits,
                  .over = life->over};
  }
  return actor;
}

}  // namespace

void ActorRecords::write(ActorId actor) {
  if (!events_.has_records()) return;
  const auto* const state = actors_.look_at(actor);
  if (state == nullptr || state->why) events_.erase(actor_key(actor));
  if (const auto life = life_record(actor)) {
    events_.put(life_key(actor), *life);
  } else if (state == nullptr) {
    events_.erase(life_key(actor));
  }
}

/// Returns nullopt if the actor is not known, or is only promised.
std::optional<wire::ActorLife> ActorRecords::life_record(ActorId actor) const {
  const auto* const state = actors_.look_at(actor);
  if (state == nullptr) return std::nullopt;
  const scheduler::ActorLife life = state->life();
  if (life.incarnation == 0 && !life.over) return std::nullopt;
  wire::ActorLife record{.actor = actor,
                         .incarnation = life.incarnation,
                         .restarts = life.restarts,
                         .backoff = life.backoff,
                         .waits = life.waits};
  if (life.over) {
    record.over = life.over;
    record.label = state->spec.label;
    record.job = state->spec.job;
  }
  if (const auto* const last_end = places_.find_last_end(actor)) {
    record.last_end = last_end->reason;
    record.out_of_memory = last_end->out_of_memory;
  }
  const auto* const running = places_.running().find(actor, life.incarnation);
  if (const auto seat = placement_.seat_of(actor); life.has_process && running != nullptr) {
    // An actor that was restored at a node which is gone has no seat.
    record.has = seat ? share_of(seat->node, *seat->allotment) : wire::NodeResources{running->node, {}, {}};
    record.group = seat ? seat->group : GroupId{};
    record.bundle = seat ? seat->bundle : 0;
  }
  return record;
}

void ActorRecords::add_records(std::map<std::string, std::optional<wire::Message>>& to) const {
  for (const auto& [actor, state] : actors_.all()) {
    if (!state.why) to.emplace(actor_key(actor), std::nullopt);
    if (auto life = life_record(actor)) to.emplace(life_key(actor), *std::move(life));
  }
}

bool ActorRecords::restore(const wire::ActorLife* life, const wire::StartActor* making,
                           const wire::PromiseActor* promise) {
  const auto restored = read(life, making, promise);
  if (!restored || !jobs_.contains(restored->spec.job)) return false;
  const auto& [actor, spec, creator, lived] = *restored;
  const bool is_placed = lived.has_process && life->has.node;
  if (is_placed && recovery_.expects(life->has.node) && !restore_seat(*life)) return false;
  if (!actors_.restore(actor, spec, creator, lived, events_.now())) {
    placement_.give_back(actor);  // has no effects: nothing is placed before all is restored
    return false;
  }
  if (making != nullptr && !lived.over) places_.restore_making(actor, *making);
  if (lived.waits) places_.keep_back_if_exclusive(actor);
  if (is_placed) places_.restore_running(actor, lived.incarnation, life->has.node);
  if (life != nullptr && !life->last_end.empty()) {
    places_.restore_last_end(actor, life->last_end, life->out_of_memory);
  }
  return true;
}

bool ActorRecords::restore_seat(const wire::ActorLife& life) {
  const auto allotment = allotment_of(life.has);
  if (!allotment) return false;
  return life.group ? placement_.restore_in_group(life.actor, life.group, life.bundle, *allotment)
                    : placement_.restore(life.actor, life.has.node, *allotment);
}

}  // namespace pharos::node::head
