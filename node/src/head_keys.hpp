#pragma once

#include <string>

#include <pharos/base/id.hpp>

namespace pharos::node {

// Where the head's records are in its store.

inline std::string node_key(NodeId node) {
  return "node/" + to_string(node);
}
/// That it is to go.
inline std::string drain_key(NodeId node) {
  return "drain/" + to_string(node);
}
inline std::string job_key(JobId job) {
  return "job/" + to_string(job);
}
/// How it is made.
inline std::string actor_key(ActorId actor) {
  return "actor/" + to_string(actor);
}
/// What became of it.
inline std::string life_key(ActorId actor) {
  return "life/" + to_string(actor);
}
/// What was asked for.
inline std::string group_key(GroupId group) {
  return "group/" + to_string(group);
}
/// What it has got.
inline std::string places_key(GroupId group) {
  return "places/" + to_string(group);
}

}  // namespace pharos::node
