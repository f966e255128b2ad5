#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/base/id.hpp>

namespace pharos::node::head {

/// The incarnations whose processes run or are being started, by actor and by node.
/// Owned by ActorPlaces; on its strand. Pointers that it returns are valid until the actor's entry is removed.
class RunningTable {
 public:
  struct Running {
    std::uint32_t incarnation = 0;
    NodeId node;
    bool untold = false;  ///< the node may not know of the incarnation, and has not come back yet
  };

  /// No incarnation of the actor may be in the table.
  void add(ActorId actor, const Running& running);
  /// Returns the incarnation that was removed; nullopt if this incarnation of the actor did not run.
  std::optional<Running> remove(ActorId actor, std::uint32_t incarnation);
  /// The node knows of the actor's incarnation. Returns whether it was untold.
  bool note_told(ActorId actor);
  /// Returns nullptr if no incarnation of the actor runs.
  const Running* find(ActorId actor) const;
  /// Returns nullptr if this incarnation of the actor does not run.
  const Running* find(ActorId actor, std::uint32_t incarnation) const;
  /// Returns the incarnations on a node, in the order of their actors' ids.
  std::vector<std::pair<ActorId, std::uint32_t>> at(NodeId node) const;
  const std::unordered_map<ActorId, Running>& all() const { return running_; }

 private:
  std::unordered_map<ActorId, Running> running_;
  std::unordered_map<NodeId, std::unordered_set<ActorId>> at_node_;
};

}  // namespace pharos::node::head
