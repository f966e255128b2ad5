// How the head records its state, and how another head continues from the records.
//
// Each event ends with end_event(): the changes of the event are written, and its messages are sent once they are
// durable. A head that starts again has nodes, jobs, actors and groups from its records, each where it was. Its nodes
// are closed: nothing new is placed there. A node that comes back sends, in this order,
//   1. the messages that the earlier head has not confirmed (said_again.hpp),
//   2. Reports of what is on the node. What the records have at this node and the node does not have was never told to
//      it, and is told now. What the node has and the records do not have is over, and ends,
//   3. its questions that have no answer.
// With the last Report the node is opened. The recovery is over when all nodes are back or lost. Only then does the
// head end anything because nobody holds it or asks for it: before, a caller may just not have been reported yet.

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_set>

#include <pharos/base/log.hpp>

#include "head/head.hpp"
#include "head/head_keys.hpp"
#include "node/demands.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kConfirmTime = 100ms;

wire::NodeResources share_of(NodeId node, const scheduler::Allotment& allotment) {
  return {node, allotment.amounts.amounts(), to_wire(allotment.gpus)};
}

Result<scheduler::Allotment> allotment_of(const wire::NodeResources& share) {
  PHAROS_TRY(scheduler::Resources amounts, scheduler::Resources::checked(share.amounts));
  return scheduler::Allotment{std::move(amounts), shares_of(share.gpus)};
}

void append(wire::Report& to, wire::Report&& more) {
  const auto add = [](auto& all, auto& some) { all.insert(all.end(), some.begin(), some.end()); };
  add(to.jobs, more.jobs);
  add(to.callers, more.callers);
  add(to.holds, more.holds);
  add(to.incarnations, more.incarnations);
  add(to.bundles, more.bundles);
  add(to.unheld, more.unheld);
  add(to.lent, more.lent);
  add(to.borrowed, more.borrowed);
}

}  // namespace

// ---- Events

void Head::run_later(Duration after, async::UniqueFunction<void()> then) {
  executor_.run_at(executor_.now() + after, [this, alive = std::weak_ptr{alive_}, then = std::move(then)]() mutable {
    if (alive.expired()) return;
    then();
    end_event();
  });
}

void Head::end_event() {
  write_changes();
  const auto say = [this](std::vector<std::pair<NodeId, wire::Message>>& words) {
    for (auto& [to, message] : words) {
      if (const auto node = nodes_.find(to); node != nodes_.end()) node->second.tell(std::move(message));
    }
  };
  if (records_ != nullptr) {
    return records_->commit([say, words = std::exchange(outbox_, {})]() mutable { say(words); });
  }
  say(outbox_);
  outbox_.clear();
}

void Head::confirm_later(NodeId id) {
  run_later(kConfirmTime, [this, id] {
    const auto node = nodes_.find(id);
    if (node == nodes_.end() || node->second.confirmed == node->second.said) return;
    node->second.confirmed = node->second.said;
    tell(id, wire::Confirmed{node->second.said});
  });
}

// Forgetting an actor may end more actors and jobs, so this repeats until nothing changes.
void Head::write_changes() {
  std::unordered_set<ActorId> changed;
  const auto take_more = [this] {
    auto more = actors_.take_changed();
    more.merge(std::exchange(moved_, {}));
    return more;
  };
  for (auto more = take_more(); !more.empty() || !maybe_over_.empty(); more = take_more()) {
    for (const ActorId actor : more) forget_if_over(actor);
    end_jobs_without_driver();
    changed.merge(more);
  }
  const auto groups = std::exchange(moved_groups_, {});
  if (records_ == nullptr) return;
  for (const ActorId actor : changed) write_life(actor);
  for (const GroupId group : groups) write_group(group);
}

void Head::write_life(ActorId actor) {
  const auto* const spec = actors_.find_spec(actor);
  if (spec == nullptr || actors_.life(actor).over) records_->erase(actor_key(actor));
  if (const auto life = life_record(actor)) {
    records_->put(life_key(actor), *life);
  } else if (spec == nullptr) {
    records_->erase(life_key(actor));
  }
}

/// Returns nullopt if the actor is not known, or is only promised.
std::optional<wire::ActorLife> Head::life_record(ActorId actor) const {
  const auto* const spec = actors_.find_spec(actor);
  if (spec == nullptr) return std::nullopt;
  const auto life = actors_.life(actor);
  if (life.incarnation == 0 && !life.over) return std::nullopt;
  wire::ActorLife record{.actor = actor,
                         .incarnation = life.incarnation,
                         .restarts = life.restarts,
                         .backoff = life.backoff,
                         .waits = life.waits};
  if (life.over) {
    record.over = life.over;
    record.label = spec->label;
    record.job = spec->job;
  }
  if (const auto last_end = last_ends_.find(actor); last_end != last_ends_.end()) {
    record.last_end = last_end->second.reason;
    record.out_of_memory = last_end->second.out_of_memory;
  }
  const Running* const running = find_running(actor, life.incarnation);
  if (const auto seat = placement_.seat_of(actor); life.has_process && running != nullptr) {
    // An actor that was restored at a node which is gone has no seat.
    record.has = seat ? share_of(seat->node, *seat->allotment) : wire::NodeResources{running->node, {}, {}};
    record.group = seat ? seat->group : GroupId{};
    record.bundle = seat ? seat->bundle : 0;
  }
  return record;
}

void Head::write_group(GroupId group) {
  const auto places = places_record(group);
  if (!places) {
    records_->erase(group_key(group));
    records_->erase(places_key(group));
    removed_groups_.erase(group);
    return;
  }
  if (places->removed) removed_groups_.insert(group);
  records_->put(places_key(group), *places);
}

/// Returns nullopt if nothing is left of the group.
std::optional<wire::GroupPlaces> Head::places_record(GroupId group) const {
  const auto places = placement_.places_of(group);
  if (places.empty()) return std::nullopt;
  wire::GroupPlaces record{.group = group, .places = {}, .removed = !groups_.contains(group)};
  for (const auto& place : places) record.places.push_back(share_of(place.node, place.allotment));
  return record;
}

std::optional<std::map<std::string, std::optional<wire::Message>>> Head::recorded() const {
  if (recovering_) return std::nullopt;
  std::map<std::string, std::optional<wire::Message>> all;
  for (const auto& [id, node] : nodes_) all.emplace(node_key(id), std::nullopt);
  for (const auto& [id, limit] : draining_) all.emplace(drain_key(id), std::nullopt);
  for (const auto& [id, job] : jobs_) all.emplace(job_key(id), wire::AddJob{id, job.program, job.node, {}});
  for (const auto& seen : actors_.look()) {
    if (seen.why == nullptr) all.emplace(actor_key(seen.actor), std::nullopt);
    if (auto life = life_record(seen.actor)) all.emplace(life_key(seen.actor), *std::move(life));
  }
  const auto add_group = [&](GroupId group) {
    all.emplace(group_key(group), std::nullopt);
    if (auto places = places_record(group)) all.emplace(places_key(group), *std::move(places));
  };
  for (const auto& [id, group] : groups_) add_group(id);
  for (const GroupId group : removed_groups_) add_group(group);
  return all;
}

// ---- Recovery from records

struct Head::Restored {
  struct Actor {
    const wire::StartActor* making = nullptr;
    const wire::PromiseActor* promise = nullptr;
    const wire::ActorLife* life = nullptr;
    std::vector<const Records::Record*> records;
  };
  struct Group {
    const wire::PlaceGroup* place = nullptr;
    const wire::GroupPlaces* places = nullptr;
    std::vector<const Records::Record*> records;
  };
  std::map<ActorId, Actor> actors;
  std::map<GroupId, Group> groups;
  std::vector<const Records::Record*> drains;
  std::vector<const Records::Record*> nonsense;

  void note(const Records::Record& record) {
    const wire::Message& message = record.second;
    if (const auto* const making = std::get_if<wire::StartActor>(&message)) {
      actors[making->actor].making = making;
      actors[making->actor].records.push_back(&record);
    } else if (const auto* const promise = std::get_if<wire::PromiseActor>(&message)) {
      actors[promise->actor].promise = promise;
      actors[promise->actor].records.push_back(&record);
    } else if (const auto* const life = std::get_if<wire::ActorLife>(&message)) {
      actors[life->actor].life = life;
      actors[life->actor].records.push_back(&record);
    } else if (const auto* const place = std::get_if<wire::PlaceGroup>(&message)) {
      groups[place->group].place = place;
      groups[place->group].records.push_back(&record);
    } else if (const auto* const places = std::get_if<wire::GroupPlaces>(&message)) {
      groups[places->group].places = places;
      groups[places->group].records.push_back(&record);
    } else if (std::holds_alternative<wire::DrainNode>(message)) {
      drains.push_back(&record);
    } else {
      nonsense.push_back(&record);
    }
  }
  void give_up(const std::vector<const Records::Record*>& records) {
    nonsense.insert(nonsense.end(), records.begin(), records.end());
  }
};

void Head::restore(Records::Found found) {
  recovering_ = true;
  Restored restored;
  for (const auto& record : found.records) {
    if (const auto* const join = std::get_if<wire::JoinCluster>(&record.second)) {
      if (!restore_node(*join)) restored.nonsense.push_back(&record);
    } else if (const auto* const job = std::get_if<wire::AddJob>(&record.second)) {
      jobs_.emplace(job->job, Job{job->node, job->program, {job->node}, std::nullopt});
    } else {
      restored.note(record);
    }
  }
  for (const Records::Record* const record : restored.drains) {
    const auto& drain = std::get<wire::DrainNode>(record->second);
    if (expects(drain.node)) {
      begin_drain(drain);
    } else {
      restored.give_up({record});
    }
  }
  for (const auto& [id, group] : restored.groups) {
    if (!restore_group(group.place, group.places)) restored.give_up(group.records);
  }
  for (const auto& [id, actor] : restored.actors) {
    if (!restore_actor(actor.life, actor.making, actor.promise)) restored.give_up(actor.records);
  }
  for (const Records::Record* const record : restored.nonsense) records_->set_aside(*record);
  set_aside_ = found.set_aside + restored.nonsense.size();
  for (const auto& [id, group] : restored.groups) {
    if (group.places == nullptr || !group.places->removed) continue;
    moved_groups_.insert(id);
    apply(placement_.remove_group(id));  // except for what actors still use of it
  }
  begin_again();
  end_event();
}

bool Head::restore_node(const wire::JoinCluster& join) {
  const auto total = scheduler::Resources::checked(join.amounts);
  if (!total || !scheduler::check_labels(join.labels)) return false;
  if (join.address.empty() && join.node != own_) {  // this node was in the process of an earlier head
    records_->erase(node_key(join.node));
    return true;
  }
  expect(join.node, join.address);
  if (total->empty()) return true;
  apply(placement_.add_node(join.node, *total, join.labels));
  apply(placement_.close_node(join.node));
  return true;
}

bool Head::restore_group(const wire::PlaceGroup* place, const wire::GroupPlaces* places) {
  if (place == nullptr || places == nullptr) return false;
  if (!jobs_.contains(place->asker.job)) {
    // The job is over. The nodes end the actors that still use the group, and give its resources to nobody before that.
    if (places->removed) moved_groups_.insert(place->group);
    return places->removed;
  }
  scheduler::GroupSpec spec{place->label, {}, place->strategy};
  Group group{.asker = place->asker,
              .asked_from = {},
              .label = place->label,
              .strategy = place->strategy,
              .bundles = {},
              .nodes = {},
              .unheld = {},
              .answered = true};
  for (const wire::Demand& bundle : place->bundles) {
    auto demand = checked(bundle);
    if (!demand) return false;
    group.bundles.push_back(*demand);
    spec.bundles.push_back(*std::move(demand));
  }
  std::vector<scheduler::Placement::BundlePlace> found;
  for (const wire::NodeResources& share : places->places) {
    auto allotment = allotment_of(share);
    if (!allotment) return false;
    found.push_back({share.node, *std::move(allotment)});
  }
  if (!placement_.restore_group(place->group, std::move(spec), found)) return false;
  if (places->removed) return true;
  std::uint32_t index = 0;
  for (const auto& bundle : placement_.places_of(place->group)) {
    group.nodes.push_back(bundle.node);
    group.unheld.insert(index);
    if (bundle.node) group.restored.insert(index);
    ++index;
  }
  groups_.emplace(place->group, std::move(group));
  return true;
}

bool Head::restore_actor(const wire::ActorLife* life, const wire::StartActor* making,
                         const wire::PromiseActor* promise) {
  const bool is_over = life != nullptr && life->over;
  if (!is_over && (making == nullptr) == (promise == nullptr)) return false;
  if (!is_over && (making != nullptr) != (life != nullptr)) return false;
  scheduler::ActorSpec spec;
  CallerId creator;
  if (is_over) {
    spec.job = life->job;
    spec.label = life->label;
  } else if (making != nullptr) {
    if (!checked(making->demand)) return false;
    spec = spec_of(*making);
    creator = making->asker.caller;
  } else {
    spec = spec_of(*promise);
    creator = promise->asker.caller;
  }
  if (!jobs_.contains(spec.job)) return false;
  scheduler::ActorTable::Life lived;
  ActorId actor = promise != nullptr ? promise->actor : ActorId{};
  if (life != nullptr) {
    actor = life->actor;
    lived = {.incarnation = life->incarnation,
             .restarts = life->restarts,
             .backoff = life->backoff,
             .waits = life->waits,
             .has_process = is_over ? bool{life->has.node} : !life->waits,
             .over = life->over};
  }
  const bool is_placed = lived.has_process && life->has.node;
  if (is_placed && expected_.contains(life->has.node)) {
    const auto allotment = allotment_of(life->has);
    if (!allotment || !(life->group ? placement_.restore_in_group(actor, life->group, life->bundle, *allotment)
                                    : placement_.restore(actor, life->has.node, *allotment))) {
      return false;
    }
  }
  if (!actors_.restore(actor, spec, creator, lived, executor_.now())) {
    apply(placement_.give_back(actor));
    return false;
  }
  if (lived.waits && making != nullptr && making->exclusive) {
    actors_.keep_back(actor, executor_.now() + kExclusiveTime);
  }
  if (is_placed) note_running(actor, Running{lived.incarnation, life->has.node, {}, true});
  if (making != nullptr && !is_over) makings_.emplace(actor, *making);
  if (life != nullptr && !life->last_end.empty()) {
    last_ends_.emplace(actor, wire::IncarnationEnded{actor, 0, life->last_end, life->out_of_memory});
  }
  return true;
}

/// Resumes what the earlier head had begun: losses of nodes, placements and restarts.
void Head::begin_again() {
  std::set<NodeId> lost;
  for (const auto& [actor, running] : running_) lost.insert(running.node);
  for (const auto& [id, job] : jobs_) {
    if (job.node) lost.insert(job.node);
  }
  for (const auto& [node, address] : expected_) lost.erase(node);
  for (const NodeId node : lost) lose_node(node, "its node was lost with the head");
  std::vector<GroupId> groups;
  for (const auto& [id, group] : groups_) groups.push_back(id);
  for (const GroupId group : groups) apply(placement_.replace_group(group));
  std::vector<ActorId> unplaced;
  for (const auto& [actor, making] : makings_) {
    if (actors_.lives(actor) && actors_.life(actor).has_process && !running_.contains(actor) &&
        !unplaced_.contains(actor)) {
      unplaced.push_back(actor);
    }
  }
  std::sort(unplaced.begin(), unplaced.end());
  for (const ActorId actor : unplaced) place(actor, actors_.life(actor).incarnation);
  if (const auto next = actors_.next_tick()) tick_actors_at(*next);
  run_later(kReturnTime, [this] { give_up_the_overdue(); });
  end_recovery_if_over();
}

void Head::expect(NodeId node, std::string address) {
  expected_.insert_or_assign(node, Expected{std::move(address), executor_.now() + kReturnTime});
}

void Head::give_up_the_overdue() {
  std::vector<NodeId> overdue;
  for (const auto& [node, expected] : expected_) {
    if (expected.until <= executor_.now()) overdue.push_back(node);
  }
  for (const NodeId node : overdue) remove_node(node);
}

void Head::return_node(NodeId node, const NodeDescription& description, Tell tell) {
  expected_.erase(node);
  reporting_.emplace(node, wire::Report{});
  nodes_.emplace(node, Node{.address = description.address, .tell = std::move(tell)});
  this->tell(node, welcome());
  end_event();
}

void Head::on_report(NodeId from, wire::Report some) {
  const auto reporting = reporting_.find(from);
  if (reporting == reporting_.end()) return;
  const bool more = some.more;
  append(reporting->second, std::move(some));
  if (more) return;
  const wire::Report report = std::move(reporting_.extract(reporting).mapped());

  std::vector<JobId> ended;
  for (const auto& [id, job] : jobs_) {
    if (job.node == from && std::find(report.jobs.begin(), report.jobs.end(), id) == report.jobs.end()) {
      ended.push_back(id);
    }
  }
  for (const JobId job : ended) end_job(job);
  for (const JobId id : report.jobs) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) {
      tell(from, wire::EndJob{id});
      continue;
    }
    job->second.known_at.insert(from);
    if (!job->second.stopping) continue;
    job->second.stopping->insert(from);
    tell(from, wire::StopJob{id});
  }
  for (const auto& [caller, job] : report.callers) note_caller({job, caller, 0}, from);
  end_callers_but(report, from);
  for (const wire::Report::Hold& hold : report.holds) {
    // The message that makes the actor may have reached no head yet. Then the node of its maker sends it again, after
    // that node's report.
    wire::Report alone;
    alone.holds.push_back(hold);
    if (!put_off_until_made(hold.actor, from, alone)) restore_holds(alone);
  }
  take_reported_bundles(from, report);
  take_reported_incarnations(from, report);
  for (const auto& [worker, caller, job] : report.lent) {
    if (!jobs_.contains(job)) continue;
    leases_.insert_or_assign(worker, Lease{from, {}, {job, caller, 0}, {}, false, false});
    placement_.count_leases(from, 1);
  }
  for (const WorkerId worker : report.borrowed) borrowed_.insert_or_assign(worker, from);
  if (!draining_.contains(from)) apply(placement_.open_node(from));
  end_recovery_if_over();
}

// Some callers are known only from messages that their node has sent again for them, and have ended since.
void Head::end_callers_but(const wire::Report& report, NodeId from) {
  std::unordered_set<CallerId> there;
  for (const auto& [caller, job] : report.callers) there.insert(caller);
  std::vector<CallerId> ended;
  for (const auto& [caller, place] : callers_) {
    if (place.node == from && !there.contains(caller)) ended.push_back(caller);
  }
  for (const CallerId caller : ended) end_caller(caller);
}

void Head::restore_holds(const wire::Report& report) {
  for (const auto& [caller, actor, count] : report.holds) apply(actors_.restore_hold(actor, caller, count));
}

void Head::take_reported_bundles(NodeId from, const wire::Report& report) {
  const auto key_of = [](const wire::Report::Bundle& each) { return std::pair{each.group, each.bundle}; };
  std::set<std::pair<GroupId, std::uint32_t>> unheld;
  for (const auto& each : report.unheld) unheld.insert(key_of(each));
  std::vector<scheduler::Placement::BundlePlace> places;
  GroupId of;  // the bundles are reported group by group
  for (const auto& each : report.bundles) {
    if (std::exchange(of, each.group) != each.group) places = placement_.places_of(each.group);
    if (each.bundle >= places.size() || places[each.bundle].node != from) {
      tell(from, wire::ReleaseBundle{each.group, each.bundle});
      continue;
    }
    const auto group = groups_.find(each.group);
    if (group == groups_.end()) continue;
    group->second.restored.erase(each.bundle);
    if (!unheld.contains(key_of(each))) bundle_held(from, {each.group, each.bundle});
  }
  for (auto& [id, group] : groups_) {
    if (group.restored.empty()) continue;
    places = placement_.places_of(id);
    std::erase_if(group.restored, [&, id = id](std::uint32_t index) {
      if (places[index].node != from) return false;
      hold_bundle(id, index, from, places[index].allotment);
      return true;
    });
  }
}

void Head::take_reported_incarnations(NodeId from, const wire::Report& report) {
  for (const auto& [actor, incarnation, constructed] : report.incarnations) {
    Running* const running = find_running(actor, incarnation);
    if (running == nullptr || running->node != from || !actors_.lives(actor)) {
      tell(from, wire::EndIncarnation{actor, incarnation, true});
      if (running != nullptr && running->node == from) running->untold = false;
      continue;
    }
    running->untold = false;
    if (constructed) apply(actors_.incarnation_started(actor, incarnation));
  }
  for (const auto& [actor, incarnation] : running_at(from)) {
    Running* const running = find_running(actor, incarnation);
    if (running == nullptr || !std::exchange(running->untold, false)) continue;
    if (actors_.lives(actor)) {
      start_incarnation(actor);
    } else {
      incarnation_ended({actor, incarnation, "the actor was ended before its process could start"});
    }
  }
}

void Head::end_recovery_if_over() {
  if (!recovering_ || !expected_.empty() || !reporting_.empty()) return;
  if (own_ && !knows(own_)) return;  // what ran there may have room nowhere else
  recovering_ = false;
  settle_leases();
  apply(actors_.restored([this](CallerId caller) { return callers_.contains(caller); }));
  for (const auto& [id, job] : jobs_) {
    if (!job.node) maybe_over_.insert(id);
  }
  for (const ActorId actor : std::exchange(unplaceable_yet_, {})) {
    if (const auto unplaced = unplaced_.find(actor); unplaced != unplaced_.end()) place(actor, unplaced->second);
  }
  for (auto& [from, message] : std::exchange(put_off_, {})) on_event(from, std::move(message));
}

/// Keeps the leases that both nodes have reported, and ends the others.
void Head::settle_leases() {
  std::vector<WorkerId> unknown;
  for (auto& [worker, lease] : leases_) {
    if (lease.asked_from) continue;
    const auto borrower = borrowed_.extract(worker);
    if (borrower.empty() || !callers_.contains(lease.asker.caller)) {
      unknown.push_back(worker);
    } else {
      lease.asked_from = borrower.mapped();
    }
  }
  for (const WorkerId worker : unknown) end_lease(worker, true, nullptr);
  for (const auto& [worker, borrower] : std::exchange(borrowed_, {})) {
    if (!leases_.contains(worker)) tell(borrower, wire::WorkerEnded{worker, "its node was lost"});
  }
}

}  // namespace pharos::node
