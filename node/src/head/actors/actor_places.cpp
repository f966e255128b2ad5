#include "head/actors/actor_places.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "head/head_keys.hpp"
#include "head/patience.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {
namespace {

constexpr Duration kMoveTime = std::chrono::seconds{30};  // for the call that an actor of a draining node runs

}  // namespace

ActorPlaces::ActorPlaces(Events& events, scheduler::ActorTable& actors, scheduler::Placement& placement, JobTable& jobs,
                         const Recovery& recovery, Effects& effects, WhenGone when_gone)
    : events_{events},
      actors_{actors},
      placement_{placement},
      jobs_{jobs},
      recovery_{recovery},
      effects_{effects},
      when_gone_{std::move(when_gone)} {}

void ActorPlaces::keep_making(ActorId actor, wire::StartActor making) {
  const auto [kept, is_new] = makings_.try_emplace(actor, std::move(making));
  if (is_new) events_.put(actor_key(actor), kept->second);
  changed_.insert(actor);  // if ActorTable refuses the actor, the end of the event forgets what was kept
}

// ---- Effects of ActorTable and Placement

void ActorPlaces::wait_for_restarts() {
  const auto next = actors_.next_tick();
  if (!next || *next >= next_restart_) return;
  next_restart_ = *next;
  events_.run_later(next_restart_ - events_.now(), [this, when = next_restart_] {
    if (next_restart_ == when) next_restart_ = TimePoint::max();
    effects_.apply(actors_.tick(events_.now()));
  });
}

void ActorPlaces::place(const scheduler::StartIncarnation& start) {
  place(start.actor, start.incarnation);
}

void ActorPlaces::place(ActorId actor, std::uint32_t incarnation) {
  const wire::StartActor& making = makings_.at(actor);
  const JobTable::Job& job = *jobs_.find(making.asker.job);
  if (job.stopping) return;
  unplaced_.insert_or_assign(actor, incarnation);
  if (const auto& demand = making.demand; demand.group) {
    const auto bundle = demand.bundle < 0 ? std::nullopt : std::optional{static_cast<std::uint32_t>(demand.bundle)};
    return effects_.apply(
        placement_.place_in_group(actor, making.label, scheduler::Resources{demand.amounts}, demand.group, bundle));
  }
  effects_.apply(
      placement_.place(actor, making.label, demand_of(making.demand), preference_of(making.demand, job.node)));
}

void ActorPlaces::note_placed(const scheduler::Placed& placed) {
  const wire::StartActor& making = makings_.at(placed.actor);
  const std::uint32_t incarnation = unplaced_.extract(placed.actor).mapped();
  wanting_until_.erase(placed.actor);
  if (jobs_.find(making.asker.job)->stopping) return effects_.apply(placement_.give_back(placed.actor));
  // A node that is not back yet gets only actors of groups, in bundles that it has already. It is told when it is back.
  const bool is_back = recovery_.is_settled(placed.node);
  running_.add(placed.actor, {incarnation, placed.node, !is_back});
  changed_.insert(placed.actor);
  if (is_back) start(placed.actor);
}

void ActorPlaces::start(ActorId actor) {
  const wire::StartActor& making = makings_.at(actor);
  const auto seat = placement_.seat_of(actor);
  PHAROS_CHECK(seat, actor);
  wire::StartIncarnation start{.actor = actor,
                               .incarnation = running_.find(actor)->incarnation,
                               .job = making.asker.job,
                               .label = making.label,
                               .constructor = making.constructor,
                               .arguments = making.arguments,
                               .in_pieces = making.in_pieces,
                               .name_space = making.name_space,
                               .amounts = seat->allotment->amounts.amounts(),
                               .gpus = to_wire(seat->allotment->gpus),
                               .trace = making.trace,
                               .group = seat->group,
                               .bundle = seat->bundle,
                               .exclusive = making.exclusive,
                               .may_restart = actors_.look_at(actor)->may_restart(),
                               .environment = making.demand.environment};
  jobs_.show(seat->node, making.asker.job);
  events_.tell(seat->node, std::move(start));
}

void ActorPlaces::refuse(const scheduler::Unplaceable& unplaceable) {
  if (recovery_.is_under_way()) return unplaceable_yet_.push_back(unplaceable.actor);
  const wire::Demand& demand = makings_.at(unplaceable.actor).demand;
  const Duration patience = demand.group ? Duration{} : patience_of(demand);  // the bundles of a group do not change
  const auto [until, is_new] = wanting_until_.try_emplace(unplaceable.actor, events_.now() + patience);
  if (is_new && patience != Duration{}) events_.run_later(patience, [this] { place_wanting(); });
  if (events_.now() < until->second) {
    wanting_.insert(unplaceable.actor);
    return;
  }
  wanting_until_.erase(until);
  const std::uint32_t incarnation = unplaced_.at(unplaceable.actor);
  const Error why = waited_in_vain(unplaceable.why, patience);
  effects_.apply(actors_.constructor_failed(unplaceable.actor, incarnation, why));
}

void ActorPlaces::place_wanting() {
  for (const ActorId actor : std::exchange(wanting_, {})) {
    if (const auto unplaced = unplaced_.find(actor); unplaced != unplaced_.end()) place(actor, unplaced->second);
  }
}

void ActorPlaces::end(const scheduler::EndIncarnation& end) {
  if (const auto* const running = running_.find(end.actor, end.incarnation)) {
    const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(end.grace).count();
    return events_.tell(running->node, wire::EndIncarnation{end.actor, end.incarnation, end.kill,
                                                            static_cast<std::uint32_t>(grace), end.moves});
  }
  const auto unplaced = unplaced_.find(end.actor);
  if (unplaced == unplaced_.end() || unplaced->second != end.incarnation) return;
  unplaced_.erase(unplaced);
  effects_.apply(placement_.give_back(end.actor));
  effects_.apply(actors_.incarnation_ended(end.actor, end.incarnation, "it waited for resources", events_.now()));
}

// ---- Events

void ActorPlaces::note_ended(const wire::IncarnationEnded& ended) {
  const ActorId actor = ended.actor;
  if (!running_.remove(actor, ended.incarnation)) return;
  changed_.insert(actor);
  effects_.apply(placement_.give_back(actor));
  last_ends_[actor] = ended;
  effects_.apply(actors_.incarnation_ended(actor, ended.incarnation, ended.reason, events_.now(), ended.out_of_memory));
  when_gone_(actor);
}

void ActorPlaces::keep_back_if_exclusive(ActorId actor) {
  const wire::StartActor* const making = find_making(actor);
  if (making != nullptr && making->exclusive) actors_.keep_back(actor, events_.now() + kExclusiveTime);
}

void ActorPlaces::forget_if_over(ActorId actor) {
  if (actors_.lives(actor)) return;
  // The actor is over, so it must not wait for resources any longer.
  if (const auto unplaced = unplaced_.find(actor); unplaced != unplaced_.end()) {
    return end({actor, unplaced->second, true});
  }
  makings_.erase(actor);
  last_ends_.erase(actor);
  wanting_until_.erase(actor);
  if (const auto* const state = actors_.look_at(actor)) jobs_.note_actor_over(state->spec.job);
}

void ActorPlaces::forget_job(JobId job) {
  std::erase_if(makings_, [&](const auto& entry) {
    if (entry.second.asker.job != job) return false;
    last_ends_.erase(entry.first);
    wanting_until_.erase(entry.first);
    return true;
  });
}

bool ActorPlaces::leave(NodeId node, bool over) {
  const auto there = running_.at(node);
  for (const auto& [actor, incarnation] : there) {
    const wire::StartActor* const making = find_making(actor);
    effects_.apply(making != nullptr && making->leaves ? actors_.stop(actor, "its node drains", kMoveTime)
                                                       : actors_.move(actor, kMoveTime));
    const auto* const state = actors_.look_at(actor);
    if (!over || state == nullptr) continue;
    if (state->spec.max_restarts == 0) {
      effects_.apply(actors_.kill(actor, "its node was drained, and the time limit of the drain is over"));
    } else {
      events_.tell(node, wire::EndIncarnation{actor, incarnation, true});
    }
  }
  return !there.empty();
}

// ---- Recovery

void ActorPlaces::restore_running(ActorId actor, std::uint32_t incarnation, NodeId node) {
  running_.add(actor, {incarnation, node, true});
}

void ActorPlaces::restore_last_end(ActorId actor, std::string reason, bool out_of_memory) {
  last_ends_.emplace(actor, wire::IncarnationEnded{actor, 0, std::move(reason), out_of_memory});
}

void ActorPlaces::place_missing() {
  std::vector<ActorId> missing;
  for (const auto& [actor, making] : makings_) {
    if (actors_.lives(actor) && actors_.look_at(actor)->has_process() && running_.find(actor) == nullptr &&
        !unplaced_.contains(actor)) {
      missing.push_back(actor);
    }
  }
  std::sort(missing.begin(), missing.end());
  for (const ActorId actor : missing) place(actor, actors_.look_at(actor)->incarnation);
}

// ActorPlaces that the node has and that do not run there any more are over, and end. ActorPlaces that the node does
// not have were never told to it, and are told now.
void ActorPlaces::take_report(NodeId from, const wire::Report& report) {
  for (const auto& [actor, incarnation, constructed] : report.incarnations) {
    const auto* const running = running_.find(actor, incarnation);
    const bool is_there = running != nullptr && running->node == from;
    if (is_there) running_.note_told(actor);
    if (!is_there || !actors_.lives(actor)) {
      events_.tell(from, wire::EndIncarnation{actor, incarnation, true});
    } else if (constructed) {
      effects_.apply(actors_.incarnation_started(actor, incarnation));
    }
  }
  for (const auto& [actor, incarnation] : running_.at(from)) {
    if (running_.find(actor, incarnation) == nullptr || !running_.note_told(actor)) continue;
    if (actors_.lives(actor)) {
      start(actor);
    } else {
      note_ended({actor, incarnation, "the actor was ended before its process could start"});
    }
  }
}

void ActorPlaces::place_unplaceable() {
  for (const ActorId actor : std::exchange(unplaceable_yet_, {})) {
    if (const auto unplaced = unplaced_.find(actor); unplaced != unplaced_.end()) place(actor, unplaced->second);
  }
}

// ---- State

const wire::StartActor* ActorPlaces::find_making(ActorId actor) const {
  const auto found = makings_.find(actor);
  return found == makings_.end() ? nullptr : &found->second;
}

const wire::IncarnationEnded* ActorPlaces::find_last_end(ActorId actor) const {
  const auto found = last_ends_.find(actor);
  return found == last_ends_.end() ? nullptr : &found->second;
}

bool ActorPlaces::may_need_program_of(NodeId node) const {
  return std::any_of(makings_.begin(), makings_.end(), [&](const auto& entry) {
    const JobTable::Job& job = *jobs_.find(entry.second.asker.job);
    const auto* const state = actors_.look_at(entry.first);
    return !job.node && job.known_at.contains(node) && state != nullptr && state->is_to_start();
  });
}

}  // namespace pharos::node::head
