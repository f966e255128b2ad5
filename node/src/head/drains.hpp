#pragma once

#include <cstddef>
#include <map>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_places.hpp"
#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/node_table.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// Draining nodes. Nothing new is placed on such a node. Actors that may be restarted move to another node after the
/// calls that they run, those of a group together with its bundles, once none of the group's actors runs on the node.
/// Actors whose place others may take
/// (StartActor::leaves) are stopped, with notice. The remaining actors and the tasks end by themselves or when the time
/// limit is over. Each node is looked at every 200 ms, and is told that it drains. It moves its objects that other
/// nodes need to those nodes, and says when it is empty. Then it is told to end, unless other nodes may still fetch a
/// program from it. When the time limit is over, it is told to end as it is. Owned by Head; on its strand. A drain that
/// is under way continues with the next head (restore()).
class Drains {
 public:
  Drains(Events& events, scheduler::Placement& placement, const NodeTable& nodes, const Recovery& recovery,
         ActorPlaces& places, Effects& effects)
      : events_{events},
        placement_{placement},
        nodes_{nodes},
        recovery_{recovery},
        places_{places},
        effects_{effects} {}

  /// Answers a user who wants a node to drain, as soon as the drain has begun; or refuses: kNotFound if there is no
  /// such node or it offers no resources, kFailedPrecondition for the head's own node. A node that drains already gets
  /// the new time limit.
  void begin_for(NodeId from, const wire::DrainNode& drain);
  /// Continues the drain of an earlier head. The node has the whole time limit once more. Returns false if the node is
  /// not expected.
  bool restore(const wire::DrainNode& drain);
  /// The node says that nothing is left on it: no worker, and no object that another node needs. It is told to end,
  /// unless the head knows better.
  void note_empty(NodeId node);
  /// The node is gone. Returns whether it drained.
  bool end(NodeId node);
  bool contains(NodeId node) const { return limits_.contains(node); }
  /// The draining nodes, each with its time limit.
  const std::map<NodeId, TimePoint>& all() const { return limits_; }

 private:
  Result<void> begin(const wire::DrainNode& drain);
  void add(const wire::DrainNode& drain);
  void look_later();
  void go_on(NodeId node, TimePoint limit);
  bool is_busy(NodeId node) const;

  Events& events_;
  scheduler::Placement& placement_;
  const NodeTable& nodes_;
  const Recovery& recovery_;
  ActorPlaces& places_;
  Effects& effects_;
  std::map<NodeId, TimePoint> limits_;
};

}  // namespace pharos::node::head
