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
  if (ended_callers_.contains(creator)) {
    return Error{ErrorCode::kOwnerDied, "the creator of actor " + quoted(spec.label) + " has ended"};
  }
  if (const auto known = actors_.find(actor); known != actors_.end()) {
    if (known->second.restored && known->second.creator == creator) return actor;
    return Error{ErrorCode::kAlreadyExists, "there is an actor " + to_string(actor) + " already"};
  }
  const Name name{spec.name_space, spec.name};
  if (const auto taken = names_.find(name); taken != names_.end()) {
    Actor& there = actors_.at(taken->second);
    if (!get_if_exists) {
      return Error{ErrorCode::kAlreadyExists, "there is an " + name_of(spec.name_space, spec.name) + " already",
                   "Use another name, or set get_if_exists to use the existing actor."};
    }
    if (there.spec.type != spec.type) return other_type(there.spec, spec.type);
    take(taken->second, there, creator);
    return taken->second;
  }
  changed_.insert(actor);
  Actor& promised = actors_[actor];
  promised.spec = spec;
  promised.creator = creator;
  ++living_;
  actors_of_job_[spec.job].insert(actor);
  if (!spec.name.empty()) names_[name] = actor;
  take(actor, promised, creator);
  promised_by_[creator].insert(actor);
  return actor;
}

ActorEffects ActorTable::break_promise(ActorId actor, const Error& why) {
  Actor* const found = find_actor(actor);
  if (found == nullptr || found->state != State::kPromised) return {};
  ActorEffects effects;
  end_for_good(actor, *found, why, effects);
  bury(actor, *found);
  return effects;
}

ActorEffects ActorTable::create(ActorRequestId request, ActorId actor, const ActorSpec& spec, CallerId creator) {
  Actor* const known = find_actor(actor);
  if (known != nullptr && known->state == State::kDead && known->incarnation == 0) {
    return {ActorRefused{request, *known->why}};
  }
  if (known != nullptr && known->restored && known->creator == creator && known->state != State::kPromised) {
    return connect(request, actor);
  }
  if (known == nullptr || known->state != State::kPromised) {
    if (auto promised = promise(actor, spec, false, creator); !promised) {
      return {ActorRefused{request, std::move(promised).error()}};
    }
  }
  ActorEffects effects;
  Actor& created = actors_.at(actor);
  changed_.insert(actor);
  forget_promise(actor, created);
  created.state = State::kStarting;
  created.incarnation = 1;
  effects.push_back(StartIncarnation{actor, created.incarnation});
  answer_or_wait(request, actor, created, effects);
  end_if_unheld(actor, created, effects);
  return effects;
}

ActorEffects ActorTable::connect(ActorRequestId request, ActorId actor) {
  Actor* const found = find_actor(actor);
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
  Actor& actor = actors_.at(found->second);
  if (!type.empty() && type != actor.spec.type) return other_type(actor.spec, type);
  take(found->second, actor, caller);
  return found->second;
}

ActorEffects ActorTable::hold(ActorId actor, CallerId caller, std::int32_t count) {
  Actor* const found = find_actor(actor);
  if (found == nullptr || !lives(*found) || found->spec.detached) return {};
  if (count == 0 || ended_callers_.contains(caller)) return {};
  std::int64_t& held = found->holds[caller];
  held += count;
  if (held != 0) {
    held_[caller].insert(actor);
    return {};
  }
  found->holds.erase(caller);
  not_held_by(caller, actor);
  ActorEffects effects;
  end_if_unheld(actor, *found, effects);
  return effects;
}

ActorEffects ActorTable::incarnation_started(ActorId actor, std::uint32_t incarnation) {
  Actor* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  if (found->state == State::kUnwanted) {
    found->state = State::kEnding;
    return {EndIncarnation{actor, incarnation, false}};
  }
  if (found->state != State::kStarting) return {};
  found->state = State::kAlive;
  ActorEffects effects;
  for (const ActorRequestId request : found->requests) {
    requests_.erase(request);
    effects.push_back(ActorReady{request, actor, incarnation});
  }
  found->requests.clear();
  return effects;
}

ActorEffects ActorTable::constructor_failed(ActorId actor, std::uint32_t incarnation, const Error& why) {
  Actor* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  ActorEffects effects;
  if (found->state == State::kStarting) {
    end_for_good(actor, *found, why, effects);
  } else if (found->state != State::kUnwanted) {
    return {};
  }
  found->state = State::kEnding;
  effects.push_back(EndIncarnation{actor, incarnation, false});
  return effects;
}

ActorEffects ActorTable::incarnation_ended(ActorId actor, std::uint32_t incarnation, const std::string& reason,
                                           TimePoint now, bool out_of_memory) {
  Actor* const found = find_process(actor, incarnation);
  if (found == nullptr) return {};
  changed_.insert(actor);
  ActorEffects effects;
  if (!lives(*found)) {  // the actor was asked to end
    bury(actor, *found);
    return effects;
  }

  if (std::exchange(found->moves, false)) {
    restart(actor, *found, now, now, effects);
    return effects;
  }
  const ActorSpec& spec = found->spec;
  if (!may_restart(*found)) {
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
  if (found->state == State::kAlive && now - found->since >= kLivedForLong) found->backoff = 0;
  const Duration pause = backoff_after(found->backoff);
  ++found->backoff;
  ++found->restarts;
  restart(actor, *found, now + pause, now, effects);
  return effects;
}

void ActorTable::restart(ActorId id, Actor& actor, TimePoint when, TimePoint now, ActorEffects& effects) {
  actor.state = State::kRestarting;
  actor.since = std::max(when, actor.not_before);
  if (actor.since <= now) {
    start(id, actor, now, effects);
  } else {
    restarts_.insert({actor.since, id});
  }
}

void ActorTable::keep_back(ActorId actor, TimePoint until) {
  Actor* const found = find_actor(actor);
  if (found == nullptr) return;
  found->not_before = until;
  if (found->state != State::kRestarting || found->since >= until) return;
  restarts_.erase({found->since, actor});
  found->since = until;
  restarts_.insert({until, actor});
}

ActorEffects ActorTable::stop(ActorId actor, const std::string& why, Duration grace) {
  Actor* const found = find_actor(actor);
  if (found == nullptr || !lives(*found)) return {};
  if (found->state == State::kPromised) return kill(actor, why);
  ActorEffects effects;
  end_gently(actor, *found, died(found->spec, why, kSpawnAnother), grace, effects);
  return effects;
}

ActorEffects ActorTable::move(ActorId actor, Duration grace) {
  Actor* const found = find_actor(actor);
  if (found == nullptr || found->state != State::kAlive || found->spec.max_restarts == 0 ||
      std::exchange(found->moves, true)) {
    return {};
  }
  return {EndIncarnation{actor, found->incarnation, false, grace, true}};
}

ActorEffects ActorTable::kill(ActorId actor, const std::string& why) {
  Actor* const found = find_actor(actor);
  if (found == nullptr) return {};
  ActorEffects effects;
  if (lives(*found)) {
    const std::string how = why.empty() ? "was killed" : "was killed: " + why;
    end_for_good(actor, *found, died(found->spec, how, kSpawnAnother), effects);
  }
  if (has_process(*found)) {
    kill_process(actor, *found, effects);
  } else if (found->state != State::kDead) {
    bury(actor, *found);
  }
  return effects;
}

ActorEffects ActorTable::caller_ended(CallerId caller) {
  remember_ended(caller);
  ActorEffects effects;
  if (const auto promised = promised_by_.find(caller); promised != promised_by_.end()) {
    for (const ActorId id : std::unordered_set{promised->second}) {
      const std::string how = "was not created: its creator ended before the arguments of its constructor were ready";
      const Error why = died(actors_.at(id).spec, how, kSpawnAnother);
      for (auto& effect : break_promise(id, why)) effects.push_back(std::move(effect));
    }
  }
  const auto held = held_.extract(caller);
  if (held.empty()) return effects;
  for (const ActorId id : held.mapped()) {
    Actor& actor = actors_.at(id);
    actor.holds.erase(caller);
    end_if_unheld(id, actor, effects);
  }
  return effects;
}

void ActorTable::drop_request(ActorRequestId request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  actors_.at(found->second.actor).requests.erase(found->second.place);
  requests_.erase(found);
}

ActorEffects ActorTable::job_ended(JobId job) {
  const auto ids = actors_of_job_.extract(job);
  if (ids.empty()) return {};
  ActorEffects effects;
  for (const ActorId id : ids.mapped()) {
    Actor& actor = actors_.at(id);
    if (lives(actor)) {
      end_for_good(id, actor, died(actor.spec, "ended: its job is over", "Spawn it from a program that runs."),
                   effects);
    }
    kill_process(id, actor, effects);
    if (actor.state == State::kDead) dead_.erase(actor.in_dead);
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

ActorTable::Life ActorTable::life(ActorId id) const {
  const Actor& actor = actors_.at(id);
  return {.incarnation = actor.incarnation,
          .restarts = actor.restarts,
          .backoff = actor.backoff,
          .waits = actor.state == State::kRestarting,
          .has_process = has_process(actor),
          .over = actor.why};
}

bool ActorTable::restore(ActorId id, const ActorSpec& spec, CallerId creator, const Life& life, TimePoint now) {
  const bool is_dead = life.over && !life.has_process;
  const bool is_promised = !life.over && life.incarnation == 0;
  if (actors_.contains(id) || (life.waits && life.has_process) || (life.has_process && life.incarnation == 0)) {
    return false;
  }
  if (!life.over && !spec.name.empty() && names_.contains({spec.name_space, spec.name})) return false;
  restoring_ = true;
  Actor& actor = actors_[id];
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
    actor.state = State::kKilled;
    return true;
  }
  ++living_;
  if (!spec.name.empty()) names_[{spec.name_space, spec.name}] = id;
  actor.state = is_promised ? State::kPromised : life.waits ? State::kRestarting : State::kStarting;
  if (is_promised) promised_by_[creator].insert(id);
  if (life.waits) restarts_.insert({now, id});
  return true;
}

ActorEffects ActorTable::restore_hold(ActorId id, CallerId caller, std::int64_t count) {
  ActorEffects effects;
  Actor* const found = find_actor(id);
  if (found == nullptr || !lives(*found) || found->spec.detached || ended_callers_.contains(caller)) return effects;
  if (count != 0) {
    found->holds[caller] = count;
    held_[caller].insert(id);
  } else if (found->holds.erase(caller) != 0) {
    not_held_by(caller, id);
    end_if_unheld(id, *found, effects);
  }
  return effects;
}

ActorEffects ActorTable::restored(const std::function<bool(CallerId)>& is_there) {
  ActorEffects effects;
  if (!std::exchange(restoring_, false)) return effects;
  std::vector<CallerId> gone;
  for (const auto& [caller, promised] : promised_by_) {
    if (!is_there(caller)) gone.push_back(caller);
  }
  for (const auto& [caller, held] : held_) {
    if (!is_there(caller)) gone.push_back(caller);
  }
  for (const CallerId caller : gone) {
    for (auto& effect : caller_ended(caller)) effects.push_back(std::move(effect));
  }
  for (auto& [id, actor] : actors_) {
    if (lives(actor)) end_if_unheld(id, actor, effects);
  }
  return effects;
}

bool ActorTable::has_detached(JobId job) const {
  const auto found = actors_of_job_.find(job);
  return found != actors_of_job_.end() && std::any_of(found->second.begin(), found->second.end(), [this](ActorId id) {
           const Actor& actor = actors_.at(id);
           return actor.spec.detached && lives(actor);
         });
}

std::vector<ActorId> ActorTable::promised_in(JobId job) const {
  std::vector<ActorId> promised;
  const auto found = actors_of_job_.find(job);
  if (found == actors_of_job_.end()) return promised;
  std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(promised),
               [this](ActorId actor) { return actors_.at(actor).state == State::kPromised; });
  return promised;
}

std::vector<ActorTable::Seen> ActorTable::look() const {
  std::vector<Seen> all;
  all.reserve(actors_.size());
  for (const auto& [id, actor] : actors_) {
    all.push_back(
        {id, &actor.spec, describe(id), actor.incarnation, actor.restarts, actor.why ? &*actor.why : nullptr});
  }
  return all;
}

std::string_view ActorTable::describe(ActorId actor) const {
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return "not known";
  switch (found->second.state) {
    case State::kPromised: return "its constructor waits for arguments";
    case State::kStarting: return "it starts";
    case State::kAlive: return "it is alive";
    case State::kRestarting: return "it waits for its restart";
    case State::kUnwanted: return "it starts, and nobody holds it any more";
    case State::kEnding: return "its destructor runs";
    case State::kKilled: return "it was killed";
    case State::kDead: return "it is dead";
  }
  return "not known";
}

const ActorSpec* ActorTable::find_spec(ActorId actor) const {
  const auto found = actors_.find(actor);
  return found == actors_.end() ? nullptr : &found->second.spec;
}

std::vector<CallerId> ActorTable::holders_of(ActorId actor) const {
  std::vector<CallerId> holders;
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return holders;
  for (const auto& [caller, count] : found->second.holds) holders.push_back(caller);
  return holders;
}

bool ActorTable::lives(ActorId actor) const {
  const auto found = actors_.find(actor);
  return found != actors_.end() && lives(found->second);
}

bool ActorTable::is_to_start(ActorId id) const {
  const auto found = actors_.find(id);
  return found != actors_.end() &&
         (found->second.state == State::kPromised || found->second.state == State::kStarting ||
          found->second.state == State::kRestarting);
}

bool ActorTable::may_restart(ActorId actor) const {
  const auto found = actors_.find(actor);
  return found != actors_.end() && lives(found->second) && may_restart(found->second);
}

bool ActorTable::may_restart(const Actor& actor) {
  const std::int32_t most = actor.spec.max_restarts;
  return most < 0 || actor.restarts < static_cast<std::uint32_t>(most);
}

bool ActorTable::lives(const Actor& actor) {
  return actor.state <= State::kAlive || actor.state == State::kRestarting;
}

bool ActorTable::has_process(const Actor& actor) {
  return actor.state != State::kPromised && actor.state != State::kRestarting && actor.state != State::kDead;
}

ActorTable::Actor* ActorTable::find_actor(ActorId actor) {
  const auto found = actors_.find(actor);
  return found == actors_.end() ? nullptr : &found->second;
}

// Returns null for another incarnation than the present one (invariant 3).
ActorTable::Actor* ActorTable::find_process(ActorId actor, std::uint32_t incarnation) {
  Actor* const found = find_actor(actor);
  return found != nullptr && found->incarnation == incarnation && has_process(*found) ? found : nullptr;
}

/// Returns true if the request was answered or waits, and false if it was refused.
bool ActorTable::answer_or_wait(ActorRequestId request, ActorId id, Actor& actor, ActorEffects& effects) {
  if (!lives(actor)) {
    effects.push_back(ActorRefused{request, *actor.why});
    return false;
  }
  if (actor.state == State::kAlive) {
    effects.push_back(ActorReady{request, id, actor.incarnation});
    return true;
  }
  if (actor.requests.size() >= kRequestsMax) {
    effects.push_back(ActorRefused{
        request,
        {ErrorCode::kOverloaded, std::to_string(kRequestsMax) + " requests wait for actor " + quoted(actor.spec.label),
         "Try again after a pause."}});
    return false;
  }
  const auto place = actor.requests.insert(actor.requests.end(), request);
  const bool is_new = requests_.try_emplace(request, Request{id, place}).second;
  PHAROS_CHECK(is_new, request);
  return true;
}

// The count may come to zero here, if an early release has made it negative: that release belongs to a hold that has
// not arrived yet. The entry stays, because this caller has the actor. It is removed when the caller ends, or when
// hold() brings the count to zero again.
void ActorTable::take(ActorId id, Actor& actor, CallerId caller) {
  if (actor.spec.detached || ended_callers_.contains(caller)) return;
  ++actor.holds[caller];
  held_[caller].insert(id);
}

void ActorTable::not_held_by(CallerId caller, ActorId actor) {
  const auto held = held_.find(caller);
  if (held == held_.end()) return;
  held->second.erase(actor);
  if (held->second.empty()) held_.erase(held);
}

void ActorTable::start(ActorId id, Actor& actor, TimePoint now, ActorEffects& effects) {
  changed_.insert(id);
  actor.state = State::kStarting;
  actor.since = now;
  ++actor.incarnation;
  effects.push_back(StartIncarnation{id, actor.incarnation});
}

/// Does all but end the process and set the state, which are left to the caller.
void ActorTable::end_for_good(ActorId id, Actor& actor, Error why, ActorEffects& effects) {
  changed_.insert(id);
  --living_;
  if (!actor.spec.name.empty()) names_.erase({actor.spec.name_space, actor.spec.name});
  if (actor.state == State::kRestarting) restarts_.erase({actor.since, id});
  forget_promise(id, actor);
  for (const auto& [caller, count] : actor.holds) not_held_by(caller, id);
  actor.holds.clear();
  for (const ActorRequestId request : actor.requests) {
    requests_.erase(request);
    effects.push_back(ActorRefused{request, why});
  }
  actor.requests.clear();
  actor.why = std::move(why);
}

void ActorTable::forget_promise(ActorId id, const Actor& actor) {
  if (actor.state != State::kPromised) return;
  const auto promised = promised_by_.find(actor.creator);
  promised->second.erase(id);
  if (promised->second.empty()) promised_by_.erase(promised);
}

// A promised actor without holders is ended when it is created.
void ActorTable::end_if_unheld(ActorId id, Actor& actor, ActorEffects& effects) {
  if (!actor.holds.empty() || actor.spec.detached || restoring_ || actor.state == State::kPromised) return;
  end_gently(id, actor,
             died(actor.spec, "ended: nobody holds it any more", "Keep a handle of it, or spawn it detached."), {},
             effects);
}

void ActorTable::end_gently(ActorId id, Actor& actor, Error why, Duration grace, ActorEffects& effects) {
  end_for_good(id, actor, std::move(why), effects);
  if (actor.state == State::kRestarting) {
    bury(id, actor);
  } else if (actor.state == State::kStarting) {
    actor.state = State::kUnwanted;
  } else {
    actor.state = State::kEnding;
    effects.push_back(EndIncarnation{id, actor.incarnation, false, grace});
  }
}

void ActorTable::kill_process(ActorId id, Actor& actor, ActorEffects& effects) {
  if (!has_process(actor) || actor.state == State::kKilled) return;
  actor.state = State::kKilled;
  effects.push_back(EndIncarnation{id, actor.incarnation, true});
}

void ActorTable::bury(ActorId id, Actor& actor) {
  changed_.insert(id);
  actor.state = State::kDead;
  actor.in_dead = dead_.insert(dead_.end(), id);
  if (dead_.size() <= kDeadMax) return;

  const ActorId oldest = dead_.front();
  dead_.pop_front();
  const auto forgotten = actors_.find(oldest);
  const auto of_job = actors_of_job_.find(forgotten->second.spec.job);
  of_job->second.erase(oldest);
  if (of_job->second.empty()) actors_of_job_.erase(of_job);
  changed_.insert(oldest);
  actors_.erase(forgotten);
}

void ActorTable::remember_ended(CallerId caller) {
  if (!ended_callers_.insert(caller).second) return;
  ended_callers_in_order_.push_back(caller);
  if (ended_callers_in_order_.size() <= kEndedCallersMax) return;
  ended_callers_.erase(ended_callers_in_order_.front());
  ended_callers_in_order_.pop_front();
}

}  // namespace pharos::scheduler
