#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// What the head stores of actors and groups, and never sends. See pharos/wire/message.hpp.

namespace pharos::wire {

/// The resources of a node that an actor or a bundle has.
struct NodeResources {
  NodeId node{};
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
  friend bool operator==(const NodeResources&, const NodeResources&) = default;
};
/// The head's stored record of an actor, in addition to its StartActor or PromiseActor. Never sent.
struct ActorLife {
  ActorId actor;
  std::uint32_t incarnation = 0;  ///< 0 while the actor is only promised
  std::uint32_t restarts = 0;
  std::uint32_t backoff = 0;
  bool waits = false;   ///< the actor waits for its restart
  NodeResources has{};  ///< resources of its process; without a node if it has no process
  GroupId group{};      ///< if set, the resources are a part of a bundle of this group
  std::uint32_t bundle = 0;
  std::optional<Error> over{};  ///< the reason if the actor has ended for good
  std::string label{};
  JobId job{};
  std::string last_end{};      ///< how the previous incarnation ended
  bool out_of_memory = false;  ///< the previous incarnation was killed because its node had too little memory
};
/// The head's stored record of a placement group, in addition to its PlaceGroup: the resources of each bundle. Never
/// sent.
struct GroupPlaces {
  GroupId group;
  std::vector<NodeResources> places{};
  bool removed = false;  ///< the group is removed, but actors still use some of the resources
};

}  // namespace pharos::wire
