#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include <pharos/scheduler/actor_state.hpp>
#include <pharos/scheduler/holders.hpp>
#include <pharos/scheduler/waiting_requests.hpp>

namespace pharos::scheduler {

constexpr std::size_t kNameMax = 256;
/// Checks the name of an actor, of a namespace or of a group. Returns kInvalidArgument if the name has more than
/// kNameMax bytes or has control characters. The empty name is valid.
Result<void> check_name(std::string_view name);

/// Tells the owner of the table to start the process of this incarnation, and then to report incarnation_started(),
/// constructor_failed() or incarnation_ended().
struct StartIncarnation {
  ActorId actor;
  std::uint32_t incarnation;
};
/// Tells the owner of the table to end the process of this incarnation, which may still be starting, and to report
/// incarnation_ended() when the process is gone. An effect with `kill` may follow one without `kill` for the same
/// incarnation.
struct EndIncarnation {
  ActorId actor;
  std::uint32_t incarnation;
  bool kill;         ///< true: at once; false: after the actor's destructor has run
  Duration grace{};  ///< without `kill`: how long a running call may take to finish
  /// The actor is restarted on another node: calls that this incarnation has not begun go to the next incarnation.
  bool moves = false;
};
/// Answers a request: this incarnation takes calls.
struct ActorReady {
  ActorRequestId request;
  ActorId actor;
  std::uint32_t incarnation;
};
/// Answers a request: the actor does not exist, or has ended for good.
struct ActorRefused {
  ActorRequestId request;
  Error why;
};
using ActorEffect = std::variant<StartIncarnation, EndIncarnation, ActorReady, ActorRefused>;
using ActorEffects = std::vector<ActorEffect>;

/// Keeps track of all actors of a cluster: their names, their holders, their restarts, and the requests that wait for
/// them. A holder is a caller that has handles of an actor. Detached actors have no holders.
/// Owned by Head, and used on the head's strand. Pure: events go in and effects come out, and the time is passed in.
/// The destructor drops the requests that wait without an answer.
///
/// An actor may be promised before it is created. A promised actor has a name and holders, but no process. A created
/// actor starts and then is alive. When its process is gone, the actor waits for its restart. The restart starts the
/// next incarnation of the actor: an incarnation is one process that runs the actor, and the first has the number 1. An
/// actor ends for good when it is killed, when it has no holder left, when its job is over, when its constructor fails,
/// or when its process is gone and no restarts are left. From then on its name is free, requests for it are refused
/// with the reason of its end, and holds of it are ignored, though its process may take a while to end.
///
/// 1. Each request is answered once, by ActorReady or ActorRefused, unless it is dropped before.
/// 2. No incarnation starts before the previous incarnation was reported gone, so at most one process of an actor is
///    alive.
/// 3. An event about an unknown actor, or about an incarnation that is not the present one, changes nothing.
/// 4. The owner reports once that a process for which StartIncarnation was issued is gone, unless the table has
/// forgotten
///    the actor by then.
///
/// Bounds: at most `kRequestsMax` requests wait for one actor; the next request is refused with kOverloaded. The table
/// remembers the last `kDeadMax` actors that ended, each with the reason, and the last `Holders::kEndedMax` callers
/// that ended.
class ActorTable {
 public:
  static constexpr std::size_t kRequestsMax = 65536;
  static constexpr std::size_t kDeadMax = 10'000;

  /// Announces that `creator` will create this actor. The creator holds the actor once from here on. Returns
  /// kAlreadyExists if the id is known already; the creator of a restored actor may repeat the promise, and gets the
  /// id. If the name is taken, returns kAlreadyExists too; with `get_if_exists` it returns the actor of that name
  /// instead, which the creator then holds once more, or kInvalidArgument if that actor has another type. Returns
  /// kOwnerDied if the creator has ended.
  Result<ActorId> promise(ActorId actor, const ActorSpec& spec, bool get_if_exists, CallerId creator);
  /// Ends a promised actor that will not be created. Requests for it are refused with `why`. The promises of a caller
  /// that ends are broken too. An actor that is not only promised is left alone.
  ActorEffects break_promise(ActorId actor, const Error& why);
  /// Starts the actor; `request` waits until it is alive. The actor need not be promised: if it is not, this also does
  /// what promise() does without `get_if_exists`, and `request` is refused if that fails. If it is promised, `spec` and
  /// `creator` of the promise are kept. If the promise of the actor was broken, `request` is refused with the reason.
  /// The creator of a restored actor that was created may repeat create(), which then does what connect() does.
  ActorEffects create(ActorRequestId request, ActorId actor, const ActorSpec& spec, CallerId creator);
  /// Answers `request` when the present incarnation has started, or at once if it has started already. If the actor has
  /// ended for good, `request` is refused with the reason. If the actor is unknown or forgotten, `request` is refused
  /// with kNotFound. This does not make the caller a holder. `request` must not wait already, as in create().
  ActorEffects connect(ActorRequestId request, ActorId actor);
  /// Returns the actor of that name. The caller then holds the actor once more. Returns kNotFound if no actor has the
  /// name, and kInvalidArgument if the actor has another type. The type "" matches every type.
  Result<ActorId> find(const std::string& name_space, const std::string& name, const std::string& type,
                       CallerId caller);
  /// Adds `count`, which may be negative, to the number of holds that the caller has of the actor. The order of calls
  /// does not matter: a release may come before the hold that it undoes, so a caller's number may be negative for a
  /// while. An actor that is not detached ends when no caller has holds of it: an actor that is alive ends after its
  /// destructor, one that is starting ends as soon as it has started, and one that waits for its restart ends at once.
  /// One that is only promised ends when it is created. Requests for an actor that ends so are refused with kActorDied.
  /// Holds of callers that have ended are ignored.
  ActorEffects hold(ActorId actor, CallerId caller, std::int32_t count);
  /// Reports that the actor is constructed. Its requests are answered.
  ActorEffects incarnation_started(ActorId actor, std::uint32_t incarnation);
  /// Reports that the constructor failed. The actor is not restarted, because its constructor would fail again.
  /// Requests are refused with `why` unchanged. The process ends.
  ActorEffects constructor_failed(ActorId actor, std::uint32_t incarnation, const Error& why);
  /// Reports that the process of the incarnation is gone, or could not be started. If restarts are left, the next
  /// incarnation starts: the first time at once, the second time after 100 ms, then after twice as long each time, up
  /// to 10 s. The pauses begin anew if the incarnation was constructed and ended 60 s or more after it was asked to
  /// start. If no restarts are left, the actor ends for good, with kActorDied, or with kExhausted if `out_of_memory`,
  /// which says that the process was killed because memory was short.
  ActorEffects incarnation_ended(ActorId actor, std::uint32_t incarnation, const std::string& reason, TimePoint now,
                                 bool out_of_memory = false);
  /// Says that the actor's process may go on running until `until`, even if it is reported gone. The next incarnation
  /// does not start before then.
  void keep_back(ActorId actor, TimePoint until);
  /// Ends the actor for good, after its destructor. Its requests are refused at once, with kActorDied and `why`. An
  /// actor that is only promised ends as by kill(). One that is starting ends as soon as it has started, without
  /// `grace`. One that has ended for good is left alone.
  ActorEffects stop(ActorId actor, const std::string& why, Duration grace);
  /// Moves an actor that is alive and whose max_restarts is not 0: its process ends as by stop(), and the next
  /// incarnation starts at once. This restart does not count against max_restarts. An actor in another state is left
  /// alone.
  ActorEffects move(ActorId actor, Duration grace);
  /// Ends the actor for good, at once. Its requests are refused with kActorDied and `why`. A process whose destructor
  /// runs is killed too.
  ActorEffects kill(ActorId actor, const std::string& why);
  std::vector<CallerId> holders_of(ActorId actor) const { return holders_.of(actor); }
  /// Reports that the caller has ended. The caller holds nothing from here on, and later holds by it are ignored. The
  /// owner of the table must drop the requests of this caller itself.
  ActorEffects caller_ended(CallerId caller);
  /// Removes a request whose answer nobody waits for any more.
  void drop_request(ActorRequestId request) { requests_.drop(request); }
  /// Kills and forgets all actors of the job, including detached actors and actors that had ended. Their requests are
  /// refused with kActorDied.
  ActorEffects job_ended(JobId job);
  /// Starts the restarts that are due.
  ActorEffects tick(TimePoint now);
  /// Returns when tick() has something to do if no event comes before; nullopt if no restart is planned.
  std::optional<TimePoint> next_tick() const;

  // ---- State that outlives the table

  /// Returns the actors whose ActorLife has changed since the last call, including actors that the table has forgotten.
  std::unordered_set<ActorId> take_changed() { return std::exchange(changed_, {}); }
  /// Adds an actor as another table had it. An incarnation that had a process counts as starting until the owner
  /// reports it again, and a restart that waited is due at `now`. Until restored() is called, no actor ends for want of
  /// holders, because some holders may not have been heard of yet. Returns false, and changes nothing, if `life`
  /// contradicts itself, the id is known or the name is taken.
  bool restore(ActorId actor, const ActorSpec& spec, CallerId creator, const ActorLife& life, TimePoint now);
  /// Sets the number of holds that the caller has of the actor, whatever the table knew before.
  ActorEffects restore_hold(ActorId actor, CallerId caller, std::int64_t count);
  /// Says that all holders have been heard of; `is_there` tells which callers still exist. Actors without holders end.
  /// The promises of callers that are gone are broken.
  ActorEffects restored(const std::function<bool(CallerId)>& is_there);

  // ---- State

  /// Returns the state of an actor, also of one that has ended, until the table forgets the actor; nullptr if the actor
  /// is unknown. The pointer is valid until the next event.
  const ActorState* look_at(ActorId actor) const;
  /// The number of actors that have not ended for good.
  std::size_t size() const { return living_; }
  /// The number of requests that wait.
  std::size_t waiting() const { return requests_.size(); }
  bool lives(ActorId actor) const;
  /// Returns whether the job has a detached actor that has not ended for good.
  bool has_detached(JobId job) const;
  /// Returns the actors of the job that are promised and not created.
  std::vector<ActorId> promised_in(JobId job) const;
  /// Returns all actors, including those that have ended and are not forgotten.
  const std::unordered_map<ActorId, ActorState>& all() const { return actors_; }

 private:
  using Name = std::pair<std::string, std::string>;  // namespace first
  using Phase = ActorState::Phase;

  ActorState* find_actor(ActorId actor);
  ActorState* find_process(ActorId actor, std::uint32_t incarnation);
  bool answer_or_wait(ActorRequestId request, ActorId id, ActorState& actor, ActorEffects& effects);
  void start(ActorId id, ActorState& actor, TimePoint now, ActorEffects& effects);
  void restart(ActorId id, ActorState& actor, TimePoint when, TimePoint now, ActorEffects& effects);
  void end_for_good(ActorId id, ActorState& actor, Error why, ActorEffects& effects);
  void end_if_unheld(ActorId id, ActorState& actor, ActorEffects& effects);
  void end_gently(ActorId id, ActorState& actor, Error why, Duration grace, ActorEffects& effects);
  void kill_process(ActorId id, ActorState& actor, ActorEffects& effects);
  void bury(ActorId id, ActorState& actor);

  std::unordered_map<ActorId, ActorState> actors_;
  std::map<Name, ActorId> names_;  // of actors that have not ended for good
  Holders holders_;
  WaitingRequests requests_;
  std::unordered_map<JobId, std::unordered_set<ActorId>> actors_of_job_;  // including actors that have ended
  std::set<std::pair<TimePoint, ActorId>> restarts_;                      // planned restarts, the next one first
  std::map<std::uint64_t, ActorId> dead_;                                 // by ActorState::grave, oldest first
  std::uint64_t last_grave_ = 0;
  std::unordered_set<ActorId> changed_;
  bool restoring_ = false;
  std::size_t living_ = 0;
};

}  // namespace pharos::scheduler
