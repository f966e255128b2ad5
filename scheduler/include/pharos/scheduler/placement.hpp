#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/scheduler/waiting_line.hpp>

namespace pharos::scheduler {

/// This actor's process is to be started on this node, with these resources of it.
struct Placed {
  ActorId actor;
  NodeId node;
  Allotment allotment;
};
/// No node has that much, even with nothing taken.
struct Unplaceable {
  ActorId actor;
  Error why;
};
using PlacementEffect = std::variant<Placed, Unplaceable>;
using PlacementEffects = std::vector<PlacementEffect>;

/// Which node has which actor's process, and with which of its resources. What tasks have is the nodes' own business:
/// they give to actors what the head says, before they give to tasks.
/// An actor goes where the fewest are for each CPU, among the nodes that it fits; of equals, where it was asked for.
/// Who does not fit now waits in order; on the node where it is to go, what it asks for is set aside as it becomes
/// free. Pure: events in, effects out. One thread.
class Placement {
 public:
  PlacementEffects add_node(NodeId node, const Resources& total);
  /// It is lost, and whatever was placed there. Those who wait and fit nowhere any more are told.
  PlacementEffects remove_node(NodeId node);
  /// Answered by Placed, perhaps much later, or Unplaceable, at once or when a node goes. `label` is for messages.
  PlacementEffects place(ActorId actor, const std::string& label, const Resources& demand, NodeId asked_at);
  /// It is not placed any more, or wanted to be: the process is gone.
  PlacementEffects give_back(ActorId actor);

  std::size_t waiting() const { return waiting_.size(); }
  /// Of all nodes.
  Resources total() const;
  /// What keeps an actor waiting.
  struct Shortage {
    std::string use;               ///< of what is scarce where it could be, in words, as Resources::use() has it
    std::vector<ActorId> holders;  ///< of some of that
  };
  Shortage shortage_of(const Resources& demand) const;
  /// Where a task of that shape could run: of those that could ever, where the fewest are for each CPU.
  /// kInvalidArgument when there is none.
  Result<NodeId> find_node(const Resources& demand, const std::string& who) const;
  /// So many more, or fewer, leases of its workers have been given to callers elsewhere.
  void count_leases(NodeId node, int more);

 private:
  struct Node {
    Ledger ledger;
    int users = 0;  // actors, and leases that callers elsewhere have
    double load() const;
  };
  struct Waiting {
    ActorId actor;
    std::string label;
    NodeId asked_at;
  };
  struct Place {
    NodeId node;
    Allotment allotment;
  };
  using Rooms = std::map<NodeId, Resources>;  // what is left without what is set aside

  void place_what_fits(PlacementEffects& effects);
  bool offer(const Resources& demand, const Waiting& waiting, Rooms& rooms, PlacementEffects& effects);
  void refuse_what_never_fits(PlacementEffects& effects);
  bool could_fit(const Resources& demand) const;
  Error too_much(const std::string& who, const Resources& demand) const;

  std::map<NodeId, Node> nodes_;
  WaitingLine<Waiting> waiting_;
  std::unordered_map<ActorId, Place> placed_;
};

}  // namespace pharos::scheduler
