#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// One caller that waits for an actor to be there, until it is answered or dropped. Not used twice.
using ActorRequestId = Id<struct ActorRequestTag>;

/// Of an actor, of a namespace or a group: kInvalidArgument if it has more than kNameMax bytes, or control characters.
/// Nothing is a name, too.
constexpr std::size_t kNameMax = 256;
Result<void> check_name(std::string_view name);

/// What there is to know about an actor before it lives.
struct ActorSpec {
  JobId job;
  std::string label;  ///< for messages
  std::string name;   ///< empty: none
  std::string name_space;
  std::string type;               ///< mangled; a name found with another type is an error
  std::int32_t max_restarts = 0;  ///< negative: without end
  bool detached = false;          ///< lives without holders and without its program, until it is killed or stopped
};

/// Start its process, then report incarnation_started(), constructor_failed() or incarnation_ended().
struct StartIncarnation {
  ActorId actor;
  std::uint32_t incarnation;
};
/// End its process, which may be starting still, and report incarnation_ended() when it is gone. The one with `kill`
/// may follow one without.
struct EndIncarnation {
  ActorId actor;
  std::uint32_t incarnation;
  bool kill;           ///< at once; else after its destructor
  Duration grace{};    ///< else: for the call that runs
  bool moves = false;  ///< another one follows elsewhere: calls that this one has not begun are for that
};
/// Answers a request: this incarnation takes calls.
struct ActorReady {
  ActorRequestId request;
  ActorId actor;
  std::uint32_t incarnation;
};
/// Answers a request: there is no such actor, or never will be again.
struct ActorRefused {
  ActorRequestId request;
  Error why;
};
using ActorEffect = std::variant<StartIncarnation, EndIncarnation, ActorReady, ActorRefused>;
using ActorEffects = std::vector<ActorEffect>;

/// The life of actors: their names, who holds them, when they are restarted, and who waits for them.
/// Pure: events in, effects out, the time passed in. One thread.
///
/// An actor may be promised before it is created: it has its name and its holders then, and no process. It starts, is
/// alive, and when its process is gone waits for its restart, which starts the next incarnation (the first is 1). It
/// ends for good when it is asked to (killed, held by nobody, its job over), when its constructor fails, or when its
/// process is gone and it has no restarts left. From then on its name is free, requests for it are refused with why it
/// ended, and holds of it are ignored, though its process may take a while to go.
///
/// 1. Each request is answered once, by ActorReady or ActorRefused, unless it is dropped before.
/// 2. No incarnation starts before the one before it was reported gone: at most one process of an actor is alive.
/// 3. Events about incarnations that are not the present one change nothing, and neither do those about actors that are
///    not known.
/// 4. Each process that was asked for is reported gone once, or the table does not know its actor any more.
///
/// Bounds: `kRequestsMax` requests wait for one actor; the next one is refused with kOverloaded. Why they ended is
/// remembered of the last `kDeadMax` actors, and of the last `kEndedCallersMax` callers that they have ended.
class ActorTable {
 public:
  static constexpr std::size_t kRequestsMax = 65536;
  static constexpr std::size_t kDeadMax = 10'000;
  static constexpr std::size_t kEndedCallersMax = 65536;

  ActorTable() = default;
  ActorTable(ActorTable&&) = default;
  ActorTable& operator=(ActorTable&&) = default;

  /// It will be created; the creator holds it once. When the name is taken: kAlreadyExists; or with `get_if_exists`,
  /// the actor of that name, which the creator now holds once more, if it has the same type (else kInvalidArgument). An
  /// id that was there before: kAlreadyExists.
  Result<ActorId> promise(ActorId actor, const ActorSpec& spec, bool get_if_exists, CallerId creator);
  /// It will not be created after all; nor will it when its creator ends. Requests for it are refused with `why`.
  ActorEffects break_promise(ActorId actor, const Error& why);
  /// `request` waits for it. One that was promised starts; of one whose promise was broken the request is refused with
  /// why. Else as promise() without `get_if_exists`, and it starts.
  ActorEffects create(ActorRequestId request, ActorId actor, const ActorSpec& spec, CallerId creator);
  /// Answered when the present incarnation has started, at once if it has; refused with why it died if it has died for
  /// good, and with kNotFound if it never was or is forgotten. Holds nothing.
  ActorEffects connect(ActorRequestId request, ActorId actor);
  /// The actor of that name, which the caller now holds once more: kNotFound; kInvalidArgument if it is of another
  /// type. The type "" fits them all.
  Result<ActorId> find(const std::string& name_space, const std::string& name, const std::string& type,
                       CallerId caller);
  /// So many more, or fewer, holds of a caller. They commute: a release may come before the hold that it undoes, so a
  /// caller's count may be negative for a while. An actor that is not detached ends, after its destructor, when the
  /// last caller's count comes to zero; one that is starting, when it has started; one that waits for its restart, at
  /// once. Ignored for callers that have ended.
  ActorEffects hold(ActorId actor, CallerId caller, std::int32_t count);
  /// It is constructed: requests are answered.
  ActorEffects incarnation_started(ActorId actor, std::uint32_t incarnation);
  /// It would fail again, so there is no restart, and requests are refused with `why` as it is. Its process ends.
  ActorEffects constructor_failed(ActorId actor, std::uint32_t incarnation, const Error& why);
  /// Its process is gone, or could not be started. If it has restarts left, the next incarnation starts: at once, then
  /// after 100 ms, and after twice as long each time, up to 10 s; and at once again when an incarnation was constructed
  /// and ended 60 s or more after it was asked to start. Else it is dead for good: kActorDied, and with
  /// `out_of_memory`, which says that it was killed for that, kExhausted.
  ActorEffects incarnation_ended(ActorId actor, std::uint32_t incarnation, const std::string& reason, TimePoint now,
                                 bool out_of_memory = false);
  /// Its process may go on until then, also when it is reported gone: the next one starts no sooner.
  void keep_back(ActorId actor, TimePoint until);
  /// For good, after its destructor; requests are refused with `why` at once. One that has no process yet: as kill().
  ActorEffects stop(ActorId actor, const std::string& why, Duration grace);
  /// An actor that is alive and has restarts ends as by stop(), and starts again at once; that is not counted.
  ActorEffects move(ActorId actor, Duration grace);
  /// For good, at once. One whose destructor runs is killed too.
  ActorEffects kill(ActorId actor, const std::string& why);
  std::vector<CallerId> holders_of(ActorId actor) const;
  /// It holds nothing any more, and never will. Its requests are for the owner of the table to drop.
  ActorEffects caller_ended(CallerId caller);
  /// Nobody waits for the answer.
  void drop_request(ActorRequestId request);
  /// All its actors are killed and forgotten, detached ones too, and those that died before.
  ActorEffects job_ended(JobId job);
  /// Starts the restarts that are due.
  ActorEffects tick(TimePoint now);
  /// When tick() has something to do, if nothing else happens.
  std::optional<TimePoint> next_tick() const;

  // ---- What outlives the table

  /// What to keep of an actor, to have it again in another table.
  struct Life {
    std::uint32_t incarnation = 0;  ///< 0: it is promised
    std::uint32_t restarts = 0;
    std::uint32_t backoff = 0;
    bool waits = false;           ///< for its restart
    bool has_process = false;     ///< of that incarnation, or shall have
    std::optional<Error> over{};  ///< why it ended for good
  };
  /// Of an actor that is known.
  Life life(ActorId actor) const;
  /// Those whose life has changed since this was asked last, also those that are not known any more.
  std::unordered_set<ActorId> take_changed() { return std::exchange(changed_, {}); }
  /// An actor as another table had it. Until restored(), nobody's hold or end ends an actor: there may be holders that
  /// have not been heard of. False: that makes no sense here, and nothing has changed.
  bool restore(ActorId actor, const ActorSpec& spec, CallerId creator, const Life& life, TimePoint now);
  /// So many holds it has of this caller, whatever was said of that before.
  ActorEffects restore_hold(ActorId actor, CallerId caller, std::int64_t count);
  /// All holders have been heard of. Actors that nobody holds end, and promises are broken that nobody will keep.
  ActorEffects restored(const std::function<bool(CallerId)>& is_there);

  /// Its next incarnation would start if the present one ended now.
  bool may_restart(ActorId actor) const;
  /// Those that live or will again.
  std::size_t size() const { return living_; }
  /// Requests that wait.
  std::size_t waiting() const { return requests_.size(); }
  bool lives(ActorId actor) const;
  /// It lives or will again, and has no constructed process now.
  bool is_to_start(ActorId actor) const;
  /// Whether an actor of it lives that is detached.
  bool has_detached(JobId job) const;
  /// Also of an actor that has died, until that is forgotten. Stays valid until the next event.
  const ActorSpec* find_spec(ActorId actor) const;
  /// Those that have no constructor's arguments yet.
  std::vector<ActorId> promised_in(JobId job) const;
  /// One actor, for people; what it points to is valid until the next event.
  struct Seen {
    ActorId actor;
    const ActorSpec* spec;
    std::string_view state;
    std::uint32_t incarnation;
    std::uint32_t restarts;
    const Error* why;  ///< it ended for good; null: it has not
  };
  /// All of them, also those that have died.
  std::vector<Seen> look() const;
  /// For people: "alive", "starts", …; "not known".
  std::string_view describe(ActorId actor) const;

 private:
  enum class State : std::uint8_t {
    kPromised,  // has no process yet
    kStarting,
    kAlive,
    kRestarting,  // its process is gone, and the next one's time has not come
    kUnwanted,    // starting; is ended when it has started
    kEnding,      // its destructor runs
    kKilled,      // its process is about to be gone
    kDead,
  };
  struct Actor {
    ActorSpec spec;
    CallerId creator;
    State state = State::kPromised;
    std::uint32_t incarnation = 0;  // of kPromised: none yet; in kRestarting: the one that is gone
    std::uint32_t restarts = 0;
    std::uint32_t backoff = 0;  // restarts since it last lived for long
    TimePoint not_before{};     // its next incarnation
    TimePoint since;  // in kRestarting: when it is due; else when the incarnation was asked for, if not the first
    std::unordered_map<CallerId, std::int64_t> holds;  // empty: nobody holds it
    std::list<ActorRequestId> requests;                // oldest first
    std::optional<Error> why;                          // it ended for good
    bool restored = false;                             // its creator may say again what it has said
    bool moves = false;                                // its process is to end, and the next one to start
    std::list<ActorId>::iterator in_dead = {};         // in kDead
  };
  struct Request {
    ActorId actor;
    std::list<ActorRequestId>::iterator place;
  };
  using Name = std::pair<std::string, std::string>;  // name space first

  static bool has_process(const Actor& actor);
  static bool lives(const Actor& actor);
  static bool may_restart(const Actor& actor);
  Actor* find_actor(ActorId actor);
  Actor* find_process(ActorId actor, std::uint32_t incarnation);
  bool answer_or_wait(ActorRequestId request, ActorId id, Actor& actor, ActorEffects& effects);
  void forget_promise(ActorId id, const Actor& actor);
  void take(ActorId id, Actor& actor, CallerId caller);
  void not_held_by(CallerId caller, ActorId actor);
  void start(ActorId id, Actor& actor, TimePoint now, ActorEffects& effects);
  void restart(ActorId id, Actor& actor, TimePoint when, TimePoint now, ActorEffects& effects);
  void end_for_good(ActorId id, Actor& actor, Error why, ActorEffects& effects);
  void end_if_unheld(ActorId id, Actor& actor, ActorEffects& effects);
  void end_gently(ActorId id, Actor& actor, Error why, Duration grace, ActorEffects& effects);
  void kill_process(ActorId id, Actor& actor, ActorEffects& effects);
  void bury(ActorId id, Actor& actor);
  void remember_ended(CallerId caller);

  std::unordered_map<ActorId, Actor> actors_;
  std::map<Name, ActorId> names_;                                   // of those that live or will again
  std::unordered_map<ActorRequestId, Request> requests_;            // that wait
  std::unordered_map<CallerId, std::unordered_set<ActorId>> held_;  // by caller: whose holds it is in
  std::unordered_map<CallerId, std::unordered_set<ActorId>> promised_by_;
  std::unordered_map<JobId, std::unordered_set<ActorId>> actors_of_job_;  // the dead too
  std::set<std::pair<TimePoint, ActorId>> restarts_;                      // that wait, next one first
  std::list<ActorId> dead_;                                               // oldest first
  std::unordered_set<CallerId> ended_callers_;
  std::deque<CallerId> ended_callers_in_order_;  // oldest first
  std::unordered_set<ActorId> changed_;
  bool restoring_ = false;
  std::size_t living_ = 0;
};

}  // namespace pharos::scheduler
