#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/base/id.hpp>

namespace pharos::node {

// The keys of the head's records in its store. Pure functions; the parts of the head call them. Records that do not fit
// are moved to "aside/" followed by their key.

inline std::string node_key(NodeId node) {
  return "node/" + to_string(node);
}
/// The order to drain a node (DrainNode).
inline std::string drain_key(NodeId node) {
  return "drain/" + to_string(node);
}
inline std::string job_key(JobId job) {
  return "job/" + to_string(job);
}
/// How an actor is made (StartActor, or PromiseActor before that).
inline std::string actor_key(ActorId actor) {
  return "actor/" + to_string(actor);
}
/// The life of an actor so far, or how it has ended (ActorLife).
inline std::string life_key(ActorId actor) {
  return "life/" + to_string(actor);
}
/// The request for a group (PlaceGroup).
inline std::string group_key(GroupId group) {
  return "group/" + to_string(group);
}
/// The places of a group's bundles (GroupPlaces).
inline std::string places_key(GroupId group) {
  return "places/" + to_string(group);
}

/// A value of the key-value store (StoredValue). The length keeps name spaces apart.
inline std::string value_key(const std::string& name_space, const std::string& key) {
  return "value/" + std::to_string(name_space.size()) + "/" + name_space + "/" + key;
}
/// The outcome of one of the last writes to that store (WriteOutcome).
inline std::string outcome_key(std::size_t slot) {
  return "write/" + std::to_string(slot);
}

/// A new token of the cluster (RotateToken).
inline std::string rotation_key(std::uint64_t number) {
  return "token/" + std::to_string(number);
}

}  // namespace pharos::node
