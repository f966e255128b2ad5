#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// Actors: how they are made, found, held and ended. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Caller to node, which asks the head. Answered by WorkerReady once the actor is constructed, however long that takes.
struct StartActor {
  ActorId actor;
  std::string label{};
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments{};
  std::string name_space{};
  std::string name{};
  std::string type{};
  std::int32_t max_restarts = 0;
  bool detached = false;
  std::int32_t max_task_retries = 0;
  bool in_pieces = false;  ///< the arguments begin with a list of objects, as with FrameFlags::kInPieces
  Demand demand{};
  Asker asker{};
  TraceId trace{};         ///< trace of the constructor of each incarnation
  bool exclusive = false;  ///< the actor's process ends if it does not hear from the head
  bool leaves = false;     ///< if its node drains, the actor is stopped with notice, not moved
};
/// Caller to node, which tells the head. Answered by ActorFound, if it was sent as a request.
/// Announces an actor whose arguments are not complete yet, or whose name may be taken (get_if_exists). Its name is
/// taken at once, and other callers may get handles.
struct PromiseActor {
  ActorId actor;
  std::string label{};
  std::string name_space{};
  std::string name{};
  std::string type{};
  std::int32_t max_restarts = 0;
  bool detached = false;
  bool get_if_exists = false;  ///< if an actor of that name exists, return that actor instead
  Asker asker{};
};
/// Caller to node, which tells the head. Not answered.
/// Cancels a PromiseActor: the actor will not be started.
struct BreakPromise {
  ActorId actor;
  Error why;
  Asker asker{};
};
/// Caller to node, which tells the head. Not answered: the head ignores an unknown actor, and logs a refusal.
struct KillActor {
  ActorId actor;
  Asker asker{};
  bool gently = false;         ///< stop the actor instead: the call that runs may finish
  std::uint32_t grace_ms = 0;  ///< with `gently`: time for the call that runs
  std::string why{};           ///< with `gently`: the reason
};
/// Caller to node, which asks the head. Answered by WorkerReady when the actor is alive.
struct ConnectActor {
  ActorId actor;
  std::uint32_t seen = 0;  ///< the incarnation to which the caller has lost its connection; 0 if none
  Asker asker{};
};
/// Caller to node, which asks the head. Answered by ActorFound; the caller then holds the actor once more.
struct FindActor {
  std::string name_space;
  std::string name;
  std::string type;  ///< if empty, the actor may be of any type, and its program of any build
  Asker asker{};
};
/// Node to caller, which holds it now.
struct ActorFound {
  ActorId actor;
  std::string label;
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};
/// Caller to node, which tells the head: the caller has `count` handles more, or fewer if negative. If the count is not
/// negative, answered by ActorHeld.
struct HoldActor {
  ActorId actor;
  std::int32_t count = 0;  ///< how many more (or, if negative, fewer) handles the caller has
  Asker asker{};
};
/// Head to node, and node to caller: the head has counted the HoldActor.
struct ActorHeld {
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the HoldActor
};
/// Node to worker, which says ActorConstructed afterwards.
struct ConstructActor {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments;
  bool in_pieces = false;
  std::string name_space{};
  WorkerResources holding{};
  TraceId trace{};
  bool exclusive = false;
};
/// Worker to node, which tells the head.
struct ActorConstructed {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::optional<Error> failure;
};
/// Head to node; ActorConstructed and IncarnationEnded say how it goes.
struct StartIncarnation {
  ActorId actor;
  std::uint32_t incarnation = 0;
  JobId job;
  std::string label;
  std::uint32_t constructor = 0;
  std::vector<std::byte> arguments;
  bool in_pieces = false;
  std::string name_space;
  Amounts amounts;
  std::vector<GpuShare> gpus;
  TraceId trace{};
  GroupId group{};  ///< if set, the amounts are a part of a bundle of this group
  std::uint32_t bundle = 0;
  bool exclusive = false;
  bool may_restart = false;                ///< the actor may be restarted once more after this incarnation
  std::vector<std::string> environment{};  ///< as Demand::environment
};
/// Head to node, which says IncarnationEnded when the process is gone.
struct EndIncarnation {
  ActorId actor;
  std::uint32_t incarnation = 0;
  bool kill = false;           ///< end the process at once, without the actor's destructor
  std::uint32_t grace_ms = 0;  ///< without `kill`: time for the call that runs
  bool moves = false;          ///< the actor continues on another node, and so do calls that have not begun
};
/// Node to head: the process is gone, or could not be started. Also head to node to caller: the node is lost.
struct IncarnationEnded {
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string reason;
  bool out_of_memory = false;  ///< the process was killed because its node had too little memory
};
/// Head to node: answers StartActor and ConnectActor.
struct ActorAlive {
  std::uint64_t number = 0;
  ActorId actor;
  std::uint32_t incarnation = 0;
  NodeId node;
  std::int32_t max_task_retries = 0;
  std::string ended{};         ///< how the previous incarnation ended; empty for the first
  std::string address{};       ///< address of its node for other nodes; empty if it is the head's node
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};

}  // namespace pharos::wire
