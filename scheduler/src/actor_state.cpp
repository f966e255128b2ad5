#include <pharos/scheduler/actor_state.hpp>

namespace pharos::scheduler {

bool ActorState::lives() const {
  return phase <= Phase::kAlive || phase == Phase::kRestarting;
}

bool ActorState::has_process() const {
  return phase != Phase::kPromised && phase != Phase::kRestarting && phase != Phase::kDead;
}

bool ActorState::is_to_start() const {
  return phase == Phase::kPromised || phase == Phase::kStarting || phase == Phase::kRestarting;
}

bool ActorState::may_restart() const {
  return lives() && (spec.max_restarts < 0 || restarts < static_cast<std::uint32_t>(spec.max_restarts));
}

ActorLife ActorState::life() const {
  return {.incarnation = incarnation,
          .restarts = restarts,
          .backoff = backoff,
          .waits = phase == Phase::kRestarting,
          .has_process = has_process(),
          .over = why};
}

std::string_view ActorState::describe() const {
  switch (phase) {
    case Phase::kPromised: return "its constructor waits for arguments";
    case Phase::kStarting: return "it starts";
    case Phase::kAlive: return "it is alive";
    case Phase::kRestarting: return "it waits for its restart";
    case Phase::kUnwanted: return "it starts, and nobody holds it any more";
    case Phase::kEnding: return "its destructor runs";
    case Phase::kKilled: return "it was killed";
    case Phase::kDead: return "it is dead";
  }
  return "not known";
}

}  // namespace pharos::scheduler
