#include <algorithm>
#include <iterator>

#include <pharos/base/demangle.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::scheduler {

using namespace std::chrono_literals;

namespace {

constexpr Duration kFirstBackoff = 100ms;
constexpr Duration kLongestBackoff = 10s;
constexpr Duration kLivedForLong = 60s;

/// The pause before the next restart, after `restarts` restarts since an incarnation last lived for long.
Duration backoff_after(std::uint32_t restarts) {
  if (restarts == 0) return 0s;
  constexpr std::uint32_t kDoublingsMax = 7;  // 12.8 s; more doublings would change nothing, and could overflow
  return std::min<Duration>(kLongestBackoff, kFirstBackoff * (1 << std::min(restarts - 1, kDoublingsMax)));
}

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

std::string name_of(const std::string& name_space, const std::string& name) {
  return "actor named " + quoted(name) + " in namespace " + quoted(name_space);
}

constexpr const char* kSpawnAnother = "Spawn another actor if one is still needed.";

Error other_type(const ActorSpec& there, const std::string& wanted) {
  return {ErrorCode::kInvalidArgument,
          "the " + name_of(there.name_space, there.name) + " has the type " + quoted(demangled(there.type.c_str())) +
              ", not " + quoted(demangled(wanted.c_str())),
          "Ask for it by its type, or take another name."};
}

Error died(const ActorSpec& spec, const std::string& how, const char* remedy) {
  return {ErrorCode::kActorDied, "actor " + quoted(spec.label) + " " + how, remedy};
}

}  // namespace

Result<void> check_name(std::string_view name) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  const auto control = std::find_if(name.begin(), name.end(), is_control);
  if (name.size() <= kNameMax && control == name.end()) return {};
  constexpr std::size_t kShown = 32;
  const auto readable = std::min<std::size_t>(kShown, static_cast<std::size_t>(control - name.begin()));
  return Error{
      ErrorCode::kInvalidArgument,
      "the name that begins with " + quoted(std::string{name.substr(0, readable)}) + " is invalid: " +
          (name.size() > kNameMax ? "it has " + std::to_string(name.size()) + " bytes" : "it has control characters"),
      "Use a name of at most " + std::to_string(kNameMax) + " bytes without control characters."};
}

Result<ActorId> ActorTable::promise(ActorId actor, const ActorSpec& spec, bool get_if_exists, CallerId creator) {
  if (holders_.has_ended(creator)) {
    return Error{ErrorCode::kOwnerDied, "the creator of actor " + quoted(spec.label) + " has ended"};
  }
  if (const auto known = actors_.find(actor); known != actors_.end()) {
    if (known->second.restored && known->second.creator == creator) return actor;
    return Error{ErrorCode::kAlreadyExists, "there is an actor " + to_string(actor) + " already"};
  }
  const Name name{spec.name_space, spec.name};
  if (const auto taken = names_.find(name); taken != names_.end()) {
    ActorState& there = actors_.at(taken->second);
    if (!get_if_exists) {
      return Error{ErrorCode::kAlreadyExists, "there is an " + name_of(spec.name_space, spec.name) + " already",
                   "Use another name, or set get_if_exists to use the existing actor."};
    }
    if (there.spec.type != spec.type) return other_type(there.spec, spec.type);
    if (!there.spec.detached) holders_.take(taken->second, creator);
    return taken->second;
  }
  changed_.insert(actor);
  ActorState& promised = actors_[actor];
  promised.spec = spec;
  promised.creator = creator;
  ++living_;
  actors_of_job_[spec.job].insert(actor);
  if (!spec.name.empty()) names_[name] = actor;
  if (!spec.detached) holders_.take(actor, creator);
  holders_.promise(actor, creator);
  return actor;
}

ActorEffects ActorTable::break_promise(ActorId actor, const Error& why) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr || found->phase != Phase::kPromised) return {};
  ActorEffects effects;
  end_for_good(actor, *found, why, effects);
  bury(actor, *found);
  return effects;
}

ActorEffects ActorTable::create(ActorRequestId request, ActorId actor, const ActorSpec& spec, CallerId creator) {
  ActorState* const known = find_actor(actor);
  if (known != nullptr && known->phase == Phase::kDead && known->incarnation == 0) {
    return {ActorRefused{request, *known->why}};
  }
  if (known != nullptr && known->restored && known->creator == creator && known->phase != Phase::kPromised) {
    return connect(request, actor);
  }
  if (known == nullptr || known->phase != Phase::kPromised) {
    if (auto promised = promise(actor, spec, false, creator); !promised) {
      return {ActorRefused{request, std::move(promised).error()}};
    }
  }
  ActorEffects effects;
  ActorState& created = actors_.at(actor);
  changed_.insert(actor);
  holders_.end_promise(actor, created.creator);
  created.phase = Phase::kStarting;
  created.incarnation = 1;
  effects.push_back(StartIncarnation{actor, created.incarnation});
  answer_or_wait(request, actor, created, effects);
  end_if_unheld(actor, created, effects);
  return effects;
}

ActorEffects ActorTable::connect(ActorRequestId request, ActorId actor) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr) {
    return {ActorRefused{
        request,
        {ErrorCode::kNotFound, "there is no actor " + to_string(actor) + ", or it ended long ago", kSpawnAnother}}};
  }
  ActorEffects effects;
  answer_or_wait(request, actor, *found, effects);
  return effects;
}

Result<ActorId> ActorTable::find(const std::string& name_space, const std::string& name, const std::string& type,
                                 CallerId caller) {
  const auto found = names_.find({name_space, name});
  if (found == names_.end()) {
    return Error{ErrorCode::kNotFound, "there is no " + name_of(name_space, name),
                 "Spawn an actor with that name. With get_if_exists, only the first caller creates it."};
  }
  ActorState& actor = actors_.at(found->second);
  if (!type.empty() && type != actor.spec.type) return other_type(actor.spec, type);
  if (!actor.spec.detached) holders_.take(found->second, caller);
  return found->second;
}

ActorEffects ActorTable::hold(ActorId actor, CallerId caller, std::int32_t count) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr || !found->lives() || found->spec.detached) return {};
  if (!holders_.add(actor, caller, count)) return {};
  ActorEffects effects;
  end_if_unheld(actor, *found, effects);
  return effects;
}

ActorEffects ActorTable::incarnation_started(ActorId actor, std::uint32_t incarnation) {
  ActorState* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  if (found->phase == Phase::kUnwanted) {
    found->phase = Phase::kEnding;
    return {EndIncarnation{actor, incarnation, false}};
  }
  if (found->phase != Phase::kStarting) return {};
  found->phase = Phase::kAlive;
  ActorEffects effects;
  for (const ActorRequestId request : requests_.take(actor)) {
    effects.push_back(ActorReady{request, actor, incarnation});
  }
  return effects;
}

ActorEffects ActorTable::constructor_failed(ActorId actor, std::uint32_t incarnation, const Error& why) {
  ActorState* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  ActorEffects effects;
  if (found->phase == Phase::kStarting) {
    end_for_good(actor, *found, why, effects);
  } else if (found->phase != Phase::kUnwanted) {
    return {};
  }
  found->phase = Phase::kEnding;
  effects.push_back(EndIncarnation{actor, incarnation, false});
  return effects;
}

ActorEffects ActorTable::incarnation_ended(ActorId actor, std::uint32_t incarnation, const std::string& reason,
                                           TimePoint now, bool out_of_memory) {
  ActorState* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  changed_.insert(actor);
  ActorEffects effects;
  if (!found->lives()) {  // the actor was asked to end
    bury(actor, *found);
    return effects;
  }

  if (std::exchange(found->moves, false)) {
    restart(actor, *found, now, now, effects);
    return effects;
  }
  const ActorSpec& spec = found->spec;
  if (!found->may_restart()) {
    std::string how = "ended: " + reason;
    if (found->restarts > 0) {
      how += "; it was restarted " + std::to_string(found->restarts) + (found->restarts == 1 ? " time" : " times");
    }
    const char* const remedy = found->restarts > 0 ? "Fix what ends the actor, or give it more max_restarts."
                                                   : "Give it max_restarts to have it started again.";
    Error why = out_of_memory ? Error{ErrorCode::kExhausted, "actor " + quoted(spec.label) + " " + how, kMemoryRemedy}
                              : died(spec, how, remedy);
    end_for_good(actor, *found, std::move(why), effects);
    bury(actor, *found);
    return effects;
  }

  // It does not matter that `since` is not set for the first incarnation: its backoff is 0 already.
  if (found->phase == Phase::kAlive && now - found->since >= kLivedForLong) found->backoff = 0;
  const Duration pause = backoff_after(found->backoff);
  ++found->backoff;
  ++found->restarts;
  restart(actor, *found, now + pause, now, effects);
  return effects;
}

void ActorTable::restart(ActorId id, ActorState& actor, TimePoint when, TimePoint now, ActorEffects& effects) {
  actor.phase = Phase::kRestarting;
  actor.since = std::max(when, actor.not_before);
  if (actor.since <= now) {
    start(id, actor, now, effects);
  } else {
    restarts_.insert({actor.since, id});
  }
}

void ActorTable::keep_back(ActorId actor, TimePoint until) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr) return;
  found->not_before = until;
  if (found->phase != Phase::kRestarting || found->since >= until) return;
  restarts_.erase({found->since, actor});
  found->since = until;
  restarts_.insert({until, actor});
}

ActorEffects ActorTable::stop(ActorId actor, const std::string& why, Duration grace) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr || !found->lives()) return {};
  if (found->phase == Phase::kPromised) return kill(actor, why);
  ActorEffects effects;
  end_gently(actor, *found, died(found->spec, why, kSpawnAnother), grace, effects);
  return effects;
}

ActorEffects ActorTable::move(ActorId actor, Duration grace) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr || found->phase != Phase::kAlive || found->spec.max_restarts == 0 ||
      std::exchange(found->moves, true)) {
    return {};
  }
  return {EndIncarnation{actor, found->incarnation, false, grace, true}};
}

ActorEffects ActorTable::kill(ActorId actor, const std::string& why) {
  ActorState* const found = find_actor(actor);
  if (found == nullptr) return {};
  ActorEffects effects;
  if (found->lives()) {
    const std::string how = why.empty() ? "was killed" : "was killed: " + why;
    end_for_good(actor, *found, died(found->spec, how, kSpawnAnother), effects);
  }
  if (found->has_process()) {
    kill_process(actor, *found, effects);
  } else if (found->phase != Phase::kDead) {
    bury(actor, *found);
  }
  return effects;
}

ActorEffects ActorTable::caller_ended(CallerId caller) {
  const auto held = holders_.end_caller(caller);
  ActorEffects effects;
  for (const ActorId id : holders_.promised_by(caller)) {
    const std::string how = "was not created: its creator ended before the arguments of its constructor were ready";
    for (auto& effect : break_promise(id, died(actors_.at(id).spec, how, kSpawnAnother))) {
      effects.push_back(std::move(effect));
    }
  }
  for (const ActorId id : held) {
    ActorState* const actor = find_actor(id);
    if (actor != nullptr && actor->lives()) end_if_unheld(id, *actor, effects);
  }
  return effects;
}

ActorEffects ActorTable::job_ended(JobId job) {
  const auto ids = actors_of_job_.extract(job);
  if (ids.empty()) return {};
  ActorEffects effects;
  for (const ActorId id : ids.mapped()) {
    ActorState& actor = actors_.at(id);
    if (actor.lives()) {
      end_for_good(id, actor, died(actor.spec, "ended: its job is over", "Spawn it from a program that runs."),
                   effects);
    }
    kill_process(id, actor, effects);
    if (actor.phase == Phase::kDead) dead_.erase(actor.grave);
    changed_.insert(id);
    actors_.erase(id);
  }
  return effects;
}

ActorEffects ActorTable::tick(TimePoint now) {
  ActorEffects effects;
  while (!restarts_.empty() && restarts_.begin()->first <= now) {
    const ActorId id = restarts_.begin()->second;
    restarts_.erase(restarts_.begin());
    start(id, actors_.at(id), now, effects);
  }
  return effects;
}

std::optional<TimePoint> ActorTable::next_tick() const {
  return restarts_.empty() ? std::nullopt : std::optional{restarts_.begin()->first};
}

// ---- State that outlives the table

bool ActorTable::restore(ActorId id, const ActorSpec& spec, CallerId creator, const ActorLife& life, TimePoint now) {
  const bool is_dead = life.over && !life.has_process;
  const bool is_promised = !life.over && life.incarnation == 0;
  if (actors_.contains(id) || (life.waits && life.has_process) || (life.has_process && life.incarnation == 0)) {
    return false;
  }
  if (!life.over && !spec.name.empty() && names_.contains({spec.name_space, spec.name})) return false;
  restoring_ = true;
  ActorState& actor = actors_[id];
  actor.spec = spec;
  actor.creator = creator;
  actor.incarnation = life.incarnation;
  actor.restarts = life.restarts;
  actor.backoff = life.backoff;
  actor.why = life.over;
  actor.restored = true;
  actor.since = now;
  actors_of_job_[spec.job].insert(id);
  if (is_dead) {
    bury(id, actor);
    return true;
  }
  if (life.over) {
    actor.phase = Phase::kKilled;
    return true;
  }
  ++living_;
  if (!spec.name.empty()) names_[{spec.name_space, spec.name}] = id;
  actor.phase = is_promised ? Phase::kPromised : life.waits ? Phase::kRestarting : Phase::kStarting;
  if (is_promised) holders_.promise(id, creator);
  if (life.waits) restarts_.insert({now, id});
  return true;
}

ActorEffects ActorTable::restore_hold(ActorId id, CallerId caller, std::int64_t count) {
  ActorEffects effects;
  ActorState* const found = find_actor(id);
  if (found == nullptr || !found->lives() || found->spec.detached) return effects;
  if (holders_.set(id, caller, count)) end_if_unheld(id, *found, effects);
  return effects;
}

ActorEffects ActorTable::restored(const std::function<bool(CallerId)>& is_there) {
  ActorEffects effects;
  if (!std::exchange(restoring_, false)) return effects;
  for (const CallerId caller : holders_.callers()) {
    if (is_there(caller)) continue;
    for (auto& effect : caller_ended(caller)) effects.push_back(std::move(effect));
  }
  for (auto& [id, actor] : actors_) {
    if (actor.lives()) end_if_unheld(id, actor, effects);
  }
  return effects;
}

bool ActorTable::has_detached(JobId job) const {
  const auto found = actors_of_job_.find(job);
  return found != actors_of_job_.end() && std::any_of(found->second.begin(), found->second.end(), [this](ActorId id) {
           const ActorState& actor = actors_.at(id);
           return actor.spec.detached && actor.lives();
         });
}

std::vector<ActorId> ActorTable::promised_in(JobId job) const {
  std::vector<ActorId> promised;
  const auto found = actors_of_job_.find(job);
  if (found == actors_of_job_.end()) return promised;
  std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(promised),
               [this](ActorId actor) { return actors_.at(actor).phase == Phase::kPromised; });
  return promised;
}

const ActorState* ActorTable::look_at(ActorId actor) const {
  const auto found = actors_.find(actor);
  return found == actors_.end() ? nullptr : &found->second;
}

bool ActorTable::lives(ActorId actor) const {
  const ActorState* const found = look_at(actor);
  return found != nullptr && found->lives();
}

ActorState* ActorTable::find_actor(ActorId actor) {
  const auto found = actors_.find(actor);
  return found == actors_.end() ? nullptr : &found->second;
}

// Returns null for another incarnation than the present one (invariant 3).
ActorState* ActorTable::find_process(ActorId actor, std::uint32_t incarnation) {
  ActorState* const found = find_actor(actor);
  return found != nullptr && found->incarnation == incarnation && found->has_process() ? found : nullptr;
}

/// Returns true if the request was answered or waits, and false if it was refused.
bool ActorTable::answer_or_wait(ActorRequestId request, ActorId id, ActorState& actor, ActorEffects& effects) {
  if (!actor.lives()) {
    effects.push_back(ActorRefused{request, *actor.why});
    return false;
  }
  if (actor.phase == Phase::kAlive) {
    effects.push_back(ActorReady{request, id, actor.incarnation});
    return true;
  }
  if (requests_.waiting_for(id) >= kRequestsMax) {
    effects.push_back(ActorRefused{
        request,
        {ErrorCode::kOverloaded, std::to_string(kRequestsMax) + " requests wait for actor " + quoted(actor.spec.label),
         "Try again after a pause."}});
    return false;
  }
  requests_.add(request, id);
  return true;
}

void ActorTable::start(ActorId id, ActorState& actor, TimePoint now, ActorEffects& effects) {
  changed_.insert(id);
  actor.phase = Phase::kStarting;
  actor.since = now;
  ++actor.incarnation;
  effects.push_back(StartIncarnation{id, actor.incarnation});
}

/// Does all but end the process and set the state, which are left to the caller.
void ActorTable::end_for_good(ActorId id, ActorState& actor, Error why, ActorEffects& effects) {
  changed_.insert(id);
  --living_;
  if (!actor.spec.name.empty()) names_.erase({actor.spec.name_space, actor.spec.name});
  if (actor.phase == Phase::kRestarting) restarts_.erase({actor.since, id});
  if (actor.phase == Phase::kPromised) holders_.end_promise(id, actor.creator);
  holders_.release_all(id);
  for (const ActorRequestId request : requests_.take(id)) effects.push_back(ActorRefused{request, why});
  actor.why = std::move(why);
}

// A promised actor without holders is ended when it is created.
void ActorTable::end_if_unheld(ActorId id, ActorState& actor, ActorEffects& effects) {
  if (holders_.is_held(id) || actor.spec.detached || restoring_ || actor.phase == Phase::kPromised) return;
  end_gently(id, actor,
             died(actor.spec, "ended: nobody holds it any more", "Keep a handle of it, or spawn it detached."), {},
             effects);
}

void ActorTable::end_gently(ActorId id, ActorState& actor, Error why, Duration grace, ActorEffects& effects) {
  end_for_good(id, actor, std::move(why), effects);
  if (actor.phase == Phase::kRestarting) {
    bury(id, actor);
  } else if (actor.phase == Phase::kStarting) {
    actor.phase = Phase::kUnwanted;
  } else {
    actor.phase = Phase::kEnding;
    effects.push_back(EndIncarnation{id, actor.incarnation, false, grace});
  }
}

void ActorTable::kill_process(ActorId id, ActorState& actor, ActorEffects& effects) {
  if (!actor.has_process() || actor.phase == Phase::kKilled) return;
  actor.phase = Phase::kKilled;
  effects.push_back(EndIncarnation{id, actor.incarnation, true});
}

void ActorTable::bury(ActorId id, ActorState& actor) {
  changed_.insert(id);
  actor.phase = Phase::kDead;
  actor.grave = ++last_grave_;
  dead_.emplace(actor.grave, id);
  if (dead_.size() <= kDeadMax) return;

  const ActorId oldest = dead_.begin()->second;
  dead_.erase(dead_.begin());
  const auto forgotten = actors_.find(oldest);
  const auto of_job = actors_of_job_.find(forgotten->second.spec.job);
  of_job->second.erase(oldest);
  if (of_job->second.empty()) actors_of_job_.erase(of_job);
  changed_.insert(oldest);
  actors_.erase(forgotten);
}

}  // namespace pharos::scheduler
