#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actor_table_texts.hpp"
#include "seed.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;

// A simple model of the same rules, without regard for speed: lists of actors, of holds and of requests, each in the
// order of arrival.
class ModelActors {
 public:
  struct Actor {
    ActorId id;
    ActorSpec spec;
    CallerId creator;
    // Or "starting", "alive", "restarting", "dead"; once asked to end, "unwanted", "ending" or "killed".
    std::string state = "promised";
    std::uint32_t incarnation = 0;
    std::vector<bool> long_lives = {};  // for each incarnation so far, whether it lived for long
    TimePoint asked_at = {};
    TimePoint due = {};
    std::optional<Error> why = {};

    bool lives() const {
      return state == "promised" || state == "starting" || state == "alive" || state == "restarting";
    }
    bool has_process() const { return state != "promised" && state != "restarting" && state != "dead"; }
  };
  struct Hold {
    ActorId actor;
    CallerId caller;
    std::int64_t count;
  };

  Result<ActorId> promise(ActorId id, const ActorSpec& spec, bool get_if_exists, CallerId creator) {
    if (ended_callers.contains(creator)) return Error{ErrorCode::kOwnerDied, kAnyText};
    if (find(id) != nullptr) return Error{ErrorCode::kAlreadyExists, kAnyText};
    if (Actor* const there = spec.name.empty() ? nullptr : named(spec.name_space, spec.name)) {
      if (!get_if_exists) return Error{ErrorCode::kAlreadyExists, kAnyText};
      if (there->spec.type != spec.type) return Error{ErrorCode::kInvalidArgument, kAnyText};
      take(*there, creator);
      return there->id;
    }
    actors.push_back({id, spec, creator});
    take(actors.back(), creator);
    return id;
  }
  Texts break_promise(ActorId id, const Error& why) {
    Actor* const actor = find(id);
    if (actor == nullptr || actor->state != "promised") return {};
    actor->state = "dead";
    return die(*actor, why);
  }
  Texts create(ActorRequestId request, ActorId id, const ActorSpec& spec, CallerId creator) {
    const Actor* const known = find(id);
    if (known != nullptr && known->state == "dead" && known->incarnation == 0) return refuse(request, *known->why);
    if (known == nullptr || known->state != "promised") {
      if (const auto promised = promise(id, spec, false, creator); !promised) return refuse(request, promised.error());
    }
    Actor& actor = *find(id);
    actor.state = "starting";
    actor.incarnation = 1;
    requests.emplace_back(request, id);
    Texts effects{"start " + incarnation_text(id, 1)};
    if (actor.spec.detached) return effects;
    for (std::string& text : end_if_unheld(actor)) effects.push_back(std::move(text));
    return effects;
  }
  Texts connect(ActorRequestId request, ActorId id) {
    const Actor* const actor = find(id);
    if (actor == nullptr) return refuse(request, {ErrorCode::kNotFound, kAnyText});
    if (!actor->lives()) return refuse(request, *actor->why);
    if (actor->state == "alive") return {ready(request, *actor)};
    requests.emplace_back(request, id);
    return {};
  }
  std::optional<ActorId> find(const std::string& name_space, const std::string& name, const std::string& type,
                              CallerId caller) {
    Actor* const actor = named(name_space, name);
    if (actor == nullptr || (!type.empty() && actor->spec.type != type)) return std::nullopt;
    take(*actor, caller);
    return actor->id;
  }
  Texts hold(ActorId id, CallerId caller, std::int32_t count) {
    Actor* const actor = find(id);
    if (actor == nullptr || !actor->lives() || actor->spec.detached) return {};
    if (ended_callers.contains(caller) || count == 0) return {};
    Hold& hold = hold_of(id, caller);
    hold.count += count;
    if (hold.count == 0) std::erase_if(holds, [&](const Hold& h) { return h.actor == id && h.caller == caller; });
    return end_if_unheld(*actor);
  }
  Texts started(ActorId id, std::uint32_t incarnation) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr) return {};
    if (actor->state == "unwanted") {
      actor->state = "ending";
      return {"end " + incarnation_text(id, incarnation)};
    }
    if (actor->state != "starting") return {};
    actor->state = "alive";
    return answer(id, [&](ActorRequestId request) { return ready(request, *actor); });
  }
  Texts constructor_failed(ActorId id, std::uint32_t incarnation, const Error& why) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr || (actor->state != "starting" && actor->state != "unwanted")) return {};
    Texts effects = actor->state == "starting" ? die(*actor, why) : Texts{};
    actor->state = "ending";
    effects.push_back("end " + incarnation_text(id, incarnation));
    return effects;
  }
  Texts ended(ActorId id, std::uint32_t incarnation, const std::string& reason, TimePoint now) {
    Actor* const actor = process(id, incarnation);
    if (actor == nullptr) return {};
    if (!actor->lives()) {
      actor->state = "dead";
      return {};
    }
    const auto restarts = static_cast<std::int64_t>(actor->long_lives.size());
    if (actor->spec.max_restarts >= 0 && restarts >= actor->spec.max_restarts) {
      std::string text = "actor \"" + actor->spec.label + "\" ended: " + reason;
      if (restarts == 1) text += "; it was restarted 1 time";
      if (restarts > 1) text += "; it was restarted " + std::to_string(restarts) + " times";
      Texts effects = die(*actor, {ErrorCode::kActorDied, text});
      actor->state = "dead";
      return effects;
    }
    actor->long_lives.push_back(incarnation > 1 && actor->state == "alive" && now - actor->asked_at >= 60s);
    actor->state = "restarting";
    Duration pause = 0s;
    for (std::size_t i = 1; i < actor->long_lives.size(); ++i) {
      pause = actor->long_lives[i] ? 0s : pause == 0s ? 100ms : std::min<Duration>(2 * pause, 10s);
    }
    actor->due = now + pause;
    return pause == 0s ? start(*actor, now) : Texts{};
  }
  Texts kill(ActorId id, const std::string& why) {
    Actor* const actor = find(id);
    if (actor == nullptr) return {};
    Texts effects;
    if (actor->lives()) {
      effects = die(*actor, {ErrorCode::kActorDied, "actor \"" + actor->spec.label + "\" was killed: " + why});
    }
    if (!actor->has_process()) actor->state = "dead";
    return kill_process(*actor, effects);
  }
  Texts caller_ended(CallerId caller) {
    ended_callers.insert(caller);
    Texts effects;
    for (Actor& actor : actors) {
      if (actor.creator != caller) continue;
      const std::string text =
          "actor \"" + actor.spec.label +
          "\" was not created: its creator ended before the arguments of its constructor were ready";
      for (std::string& each : break_promise(actor.id, {ErrorCode::kActorDied, text}))
        effects.push_back(std::move(each));
    }
    for (Actor& actor : actors) {
      const bool held =
          std::erase_if(holds, [&](const Hold& hold) { return hold.actor == actor.id && hold.caller == caller; }) > 0;
      if (!held || !actor.lives()) continue;
      for (std::string& text : end_if_unheld(actor)) effects.push_back(std::move(text));
    }
    return effects;
  }
  void drop_request(ActorRequestId request) {
    std::erase_if(requests, [&](const auto& waiting) { return waiting.first == request; });
  }
  Texts job_ended(JobId job) {
    Texts effects;
    for (Actor& actor : actors) {
      if (actor.spec.job != job) continue;
      if (actor.lives()) {
        for (std::string& text :
             die(actor, {ErrorCode::kActorDied, "actor \"" + actor.spec.label + "\" ended: its job is over"})) {
          effects.push_back(std::move(text));
        }
      }
      effects = kill_process(actor, effects);
    }
    std::erase_if(actors, [&](const Actor& actor) { return actor.spec.job == job; });
    return effects;
  }
  Texts tick(TimePoint now) {
    Texts effects;
    while (Actor* const next = next_restart()) {
      if (next->due > now) break;
      effects.push_back(start(*next, now).front());
    }
    return effects;
  }
  Actor* next_restart() {
    Actor* next = nullptr;
    for (Actor& actor : actors) {
      if (actor.state != "restarting") continue;
      if (next == nullptr || std::pair{actor.due, actor.id} < std::pair{next->due, next->id}) next = &actor;
    }
    return next;
  }
  std::size_t size() const {
    return static_cast<std::size_t>(std::count_if(actors.begin(), actors.end(), [](auto& a) { return a.lives(); }));
  }

  static constexpr const char* kAnyText = "";  // error texts are not compared here: actor_table_test.cpp checks them

  std::vector<Actor> actors;
  std::vector<Hold> holds;
  std::vector<std::pair<ActorRequestId, ActorId>> requests;
  std::set<CallerId> ended_callers;

 private:
  static Texts refuse(ActorRequestId request, const Error& why) { return {refused_text(request.value(), why)}; }
  static std::string ready(ActorRequestId request, const Actor& actor) {
    return "ready " + std::to_string(request.value()) + ", " + incarnation_text(actor.id, actor.incarnation);
  }
  Actor* find(ActorId id) {
    const auto found = std::find_if(actors.begin(), actors.end(), [&](const Actor& actor) { return actor.id == id; });
    return found == actors.end() ? nullptr : &*found;
  }
  Actor* process(ActorId id, std::uint32_t incarnation) {
    Actor* const actor = find(id);
    return actor != nullptr && actor->has_process() && actor->incarnation == incarnation ? actor : nullptr;
  }
  Actor* named(const std::string& name_space, const std::string& name) {
    for (Actor& actor : actors) {
      if (actor.lives() && actor.spec.name_space == name_space && actor.spec.name == name) return &actor;
    }
    return nullptr;
  }
  Hold& hold_of(ActorId id, CallerId caller) {
    for (Hold& hold : holds) {
      if (hold.actor == id && hold.caller == caller) return hold;
    }
    holds.push_back({id, caller, 0});
    return holds.back();
  }
  void take(const Actor& actor, CallerId caller) {
    if (!actor.spec.detached && !ended_callers.contains(caller)) ++hold_of(actor.id, caller).count;
  }
  template <class Answer>
  Texts answer(ActorId id, const Answer& with) {
    Texts effects;
    std::erase_if(requests, [&](const auto& waiting) {
      if (waiting.second == id) effects.push_back(with(waiting.first));
      return waiting.second == id;
    });
    return effects;
  }
  Texts start(Actor& actor, TimePoint now) {
    actor.state = "starting";
    actor.asked_at = now;
    return {"start " + incarnation_text(actor.id, ++actor.incarnation)};
  }
  Texts die(Actor& actor, const Error& why) {
    actor.why = why;
    std::erase_if(holds, [&](const Hold& hold) { return hold.actor == actor.id; });
    return answer(actor.id, [&](ActorRequestId request) { return refused_text(request.value(), why); });
  }
  Texts end_if_unheld(Actor& actor) {
    if (actor.state == "promised") return {};
    if (std::any_of(holds.begin(), holds.end(), [&](const Hold& hold) { return hold.actor == actor.id; })) return {};
    Texts effects =
        die(actor, {ErrorCode::kActorDied, "actor \"" + actor.spec.label + "\" ended: nobody holds it any more"});
    if (actor.state == "alive") effects.push_back("end " + incarnation_text(actor.id, actor.incarnation));
    actor.state = actor.state == "restarting" ? "dead" : actor.state == "starting" ? "unwanted" : "ending";
    return effects;
  }
  static Texts kill_process(Actor& actor, Texts effects) {
    if (!actor.has_process() || actor.state == "killed") return effects;
    actor.state = "killed";
    effects.push_back("kill " + incarnation_text(actor.id, actor.incarnation));
    return effects;
  }
};

class ActorTableAgainstTheModel : public SeededTest {
 protected:
  void run(std::uint64_t seed) {
    random_.seed(seed);
    table_ = {};
    model_ = {};
    processes_.clear();
    asked_.clear();
    answered_.clear();
    dropped_.clear();
    now_ = TimePoint{1h};
    last_id_ = 0;
    const std::size_t jobs = between(1, 3);
    const std::size_t callers = between(1, 6);
    const bool callers_end = chance(2);

    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      now_ += Duration{chance(20) ? 60'000'000'000 : chance(5) ? 0 : between(0, 200'000'000)};
      const ActorId actor = any_actor();
      const CallerId caller{between(1, callers)};
      const JobId job{between(1, jobs)};
      const std::size_t what = between(0, 99);
      if (what < 14) {
        create(job, caller);
      } else if (what < 17) {
        break_promise();
      } else if (what < 27) {
        const ActorRequestId request = ask();
        expect(table_.connect(request, actor), model_.connect(request, actor));
      } else if (what < 31) {
        find(caller);
      } else if (what < 45) {
        static constexpr std::int32_t kCounts[] = {-2, -1, -1, -1, 0, 1, 1, 2};
        const std::int32_t count = kCounts[between(0, 7)];
        expect(table_.hold(actor, caller, count), model_.hold(actor, caller, count));
      } else if (what < 60) {
        const std::uint32_t incarnation = incarnation_of(actor);
        expect(table_.incarnation_started(actor, incarnation), model_.started(actor, incarnation));
      } else if (what < 63) {
        const std::uint32_t incarnation = incarnation_of(actor);
        const Error why{ErrorCode::kUserError, "no " + std::to_string(step)};
        expect(table_.constructor_failed(actor, incarnation, why), model_.constructor_failed(actor, incarnation, why));
      } else if (what < 80) {
        const std::uint32_t incarnation = incarnation_of(actor);
        end_process(actor, incarnation);
      } else if (what < 84) {
        const std::string why = "at " + std::to_string(step);
        expect(table_.kill(actor, why), model_.kill(actor, why));
      } else if (what < 85) {
        if (callers_end) expect_in_any_order(table_.caller_ended(caller), model_.caller_ended(caller));
      } else if (what < 89) {
        drop();
      } else if (what < 90) {
        expect_in_any_order(table_.job_ended(job), model_.job_ended(job));
        std::erase_if(processes_, [&](const auto& process) { return table_.look_at(process.first) == nullptr; });
      } else {
        if (const auto next = table_.next_tick(); next.has_value() && chance(2)) now_ = std::max(now_, *next);
        expect(table_.tick(now_), model_.tick(now_));
      }
      if (HasFatalFailure()) return;
      look();
      if (HasFatalFailure()) return;
    }

    for (std::uint64_t job = 1; job <= jobs; ++job) {
      expect_in_any_order(table_.job_ended(JobId{job}), model_.job_ended(JobId{job}));
      if (HasFatalFailure()) return;
    }
    look();
    ASSERT_EQ(table_.size(), 0u);
    ASSERT_EQ(table_.waiting(), 0u);
    for (const ActorRequestId request : asked_) {
      ASSERT_NE(answered_.contains(request), dropped_.contains(request)) << "request " << request.value();
    }
  }

  void create(JobId job, CallerId creator) {
    ActorSpec spec = spec_of(job.value());
    spec.max_restarts = static_cast<std::int32_t>(between(0, 5)) - 1;
    spec.detached = chance(6);
    spec.name = chance(2) ? "" : std::string{chance(2) ? "x" : "y"};
    spec.name_space = chance(4) ? "other" : "lab";
    if (chance(6)) spec.type = "5Timer";
    const ActorId id = chance(4) ? any_actor() : ActorId{++last_id_};
    spec.label = std::to_string(id.value());
    if (chance(2)) {
      const bool get_if_exists = chance(2);
      const auto promised = table_.promise(id, spec, get_if_exists, creator);
      const auto expected = model_.promise(id, spec, get_if_exists, creator);
      ASSERT_EQ(promised.ok() ? std::optional{*promised} : std::nullopt,
                expected.ok() ? std::optional{*expected} : std::nullopt);
      return;
    }
    const ActorRequestId request = ask();
    expect(table_.create(request, id, spec, creator), model_.create(request, id, spec, creator));
  }
  void break_promise() {
    const ActorId actor = any_actor();
    const Error why{ErrorCode::kActorDied, "no arguments"};
    expect(table_.break_promise(actor, why), model_.break_promise(actor, why));
  }

  void find(CallerId caller) {
    const std::string name_space = chance(4) ? "other" : "lab";
    const std::string name = chance(2) ? "x" : "y";
    const std::string type = chance(2) ? "" : chance(4) ? "5Timer" : "7Counter";
    const auto found = table_.find(name_space, name, type, caller);
    ASSERT_EQ(found.ok() ? std::optional{*found} : std::nullopt, model_.find(name_space, name, type, caller));
  }

  void end_process(ActorId actor, std::uint32_t incarnation) {
    if (const auto process = processes_.find(actor); process != processes_.end() && process->second == incarnation) {
      processes_.erase(process);
    }
    expect(table_.incarnation_ended(actor, incarnation, "it crashed", now_),
           model_.ended(actor, incarnation, "it crashed", now_));
  }

  void drop() {
    ActorRequestId request{++last_id_};  // a request that the table does not know
    if (!model_.requests.empty() && !chance(5)) {
      request = model_.requests[between(0, model_.requests.size() - 1)].first;
      dropped_.insert(request);
    } else if (!answered_.empty() && chance(2)) {
      request = *answered_.begin();
    }
    table_.drop_request(request);
    model_.drop_request(request);
  }

  ActorRequestId ask() {
    const ActorRequestId request{++last_id_};
    asked_.insert(request);
    return request;
  }
  /// Returns one of the five newest actors most of the time, else an older or an unknown one.
  ActorId any_actor() {
    if (model_.actors.empty() || chance(20)) return ActorId{++last_id_};
    const std::size_t last = model_.actors.size() - 1;
    return model_.actors[between(chance(5) || last < 4 ? 0 : last - 4, last)].id;
  }
  /// Returns the actor's present incarnation most of the time, else the one before or after.
  std::uint32_t incarnation_of(ActorId id) {
    for (const ModelActors::Actor& actor : model_.actors) {
      if (actor.id != id) continue;
      return chance(10) ? actor.incarnation - 1 : chance(20) ? actor.incarnation + 1 : actor.incarnation;
    }
    return 1;
  }

  void expect_in_any_order(const ActorEffects& effects, Texts expected) { expect(effects, std::move(expected), true); }
  void expect(const ActorEffects& effects, Texts expected, bool in_any_order = false) {
    Texts got = texts(without_text(effects));
    if (in_any_order) {
      got = sorted(got);
      expected = sorted(expected);
    }
    ASSERT_EQ(got, expected);
    for (const ActorEffect& effect : effects) {
      if (const auto* const start = std::get_if<StartIncarnation>(&effect)) {
        const bool alone = processes_.emplace(start->actor, start->incarnation).second;
        ASSERT_TRUE(alone) << "two processes of actor " << start->actor.value();
      } else if (const auto* const ready = std::get_if<ActorReady>(&effect)) {
        answered(ready->request);
      } else if (const auto* const refused = std::get_if<ActorRefused>(&effect)) {
        answered(refused->request);
      } else {
        const auto& end = std::get<EndIncarnation>(effect);
        const auto process = processes_.find(end.actor);
        ASSERT_TRUE(process != processes_.end() && process->second == end.incarnation) << "it has no such process";
      }
    }
  }
  void answered(ActorRequestId request) {
    ASSERT_TRUE(asked_.contains(request)) << "nobody asked";
    ASSERT_FALSE(dropped_.contains(request)) << "nobody waits";
    ASSERT_TRUE(answered_.insert(request).second) << "answered twice";
  }
  /// Removes the texts that the model does not know: those of requests that are refused at once.
  static ActorEffects without_text(ActorEffects effects) {
    for (ActorEffect& effect : effects) {
      auto* const refused = std::get_if<ActorRefused>(&effect);
      if (refused == nullptr) continue;
      const ErrorCode code = refused->why.code();
      if (code != ErrorCode::kActorDied && code != ErrorCode::kUserError) refused->why = {code, ModelActors::kAnyText};
    }
    return effects;
  }

  void look() {
    ASSERT_EQ(table_.size(), model_.size());
    ASSERT_EQ(table_.waiting(), model_.requests.size());
    const ModelActors::Actor* const next = model_.next_restart();
    ASSERT_EQ(table_.next_tick(), next == nullptr ? std::nullopt : std::optional{next->due});
    for (const ModelActors::Actor& actor : model_.actors) {
      ASSERT_NE(table_.look_at(actor.id), nullptr);
      ASSERT_EQ(processes_.contains(actor.id), actor.has_process()) << "actor " << actor.id.value();
    }
  }

  ActorTable table_;
  ModelActors model_;
  std::map<ActorId, std::uint32_t> processes_;  // were asked for, and not reported as ended
  std::set<ActorRequestId> asked_;
  std::set<ActorRequestId> answered_;
  std::set<ActorRequestId> dropped_;
  TimePoint now_;
  std::uint64_t last_id_ = 0;
};

TEST_F(ActorTableAgainstTheModel, DoesTheSameInTwoThousandRandomRunsAndAnswersEachRequestOnce) {
  for_seeds(2000, [this](std::uint64_t seed) { run(seed); });
}

}  // namespace
}  // namespace pharos::scheduler
