#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// The properties of an actor that are fixed when it is created.
struct ActorSpec {
  JobId job;
  std::string label;  ///< for messages
  std::string name;   ///< empty if the actor has no name
  std::string name_space;
  std::string type;               ///< mangled C++ type; finding the name with another type is an error
  std::int32_t max_restarts = 0;  ///< negative: no limit
  /// The actor lives without holders and outlives its program, until it is killed or stopped.
  bool detached = false;
};

/// The part of an actor's state that another table needs to restore the actor.
struct ActorLife {
  std::uint32_t incarnation = 0;  ///< 0: the actor is only promised
  std::uint32_t restarts = 0;
  std::uint32_t backoff = 0;
  bool waits = false;           ///< the actor waits for its restart
  bool has_process = false;     ///< the incarnation has a process, or is about to get one
  std::optional<Error> over{};  ///< set if the actor ended for good: the reason
};

/// The state of one actor. Owned by ActorTable, which alone changes it; on the strand of the head.
struct ActorState {
  enum class Phase : std::uint8_t {
    kPromised,  ///< the actor has no process yet
    kStarting,
    kAlive,
    kRestarting,  ///< its process is gone, and its restart is not due yet
    kUnwanted,    ///< ended for good while it was starting; its process ends as soon as it has started
    kEnding,      ///< its destructor runs
    kKilled,      ///< its process was killed and is not reported gone yet
    kDead,
  };

  ActorSpec spec;
  CallerId creator;
  Phase phase = Phase::kPromised;
  std::uint32_t incarnation = 0;  ///< in kPromised: 0; in kRestarting: the number of the incarnation that is gone
  std::uint32_t restarts = 0;
  std::uint32_t backoff = 0;  ///< restarts since an incarnation last lived for long
  TimePoint not_before{};     ///< the earliest time at which the next incarnation may start
  /// In kRestarting: when the restart is due. Else: when this incarnation was asked to start; not set for the first
  /// incarnation.
  TimePoint since{};
  std::optional<Error> why{};  ///< why the actor ended for good
  /// The actor came from another table, so its creator may repeat promise() and create().
  bool restored = false;
  /// The process is to end, and the next incarnation is to start elsewhere.
  bool moves = false;
  std::uint64_t grave = 0;  ///< in kDead: the place in the order in which actors ended

  /// Returns whether the actor has not ended for good.
  bool lives() const;
  bool has_process() const;
  /// Returns whether the actor has not ended for good and is not constructed yet.
  bool is_to_start() const;
  /// Returns whether the next incarnation would start if the present one ended at this moment.
  bool may_restart() const;
  ActorLife life() const;
  /// Describes the state for people, such as "it is alive" or "it starts".
  std::string_view describe() const;
};

}  // namespace pharos::scheduler
