#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/group_state.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/wire/strategy.hpp>

namespace pharos::scheduler {

/// Start this actor's process on this node, with these resources of the node.
struct Placed {
  ActorId actor;
  NodeId node;
  Allotment allotment;
  std::optional<std::uint32_t> bundle{};  ///< the bundle of the actor's group, if the actor is in a group
};
/// The actor cannot be placed: no node has that much, even with nothing taken, or its group is gone. Placement has
/// forgotten the actor.
struct Unplaceable {
  ActorId actor;
  Error why;
};
/// The place of one bundle of a group.
struct PlacedBundle {
  std::uint32_t index;
  NodeId node;
  Allotment allotment;
};
/// All bundles of the group that lacked a place have one: at first all bundles, later those whose nodes were lost.
struct GroupPlaced {
  GroupId group;
  std::vector<PlacedBundle> bundles;
};
/// The group cannot be placed, even with nothing taken. Placement has forgotten the group.
struct GroupUnplaceable {
  GroupId group;
  Error why;
};
/// The resources of this bundle belong to the node again.
struct BundleFreed {
  GroupId group;
  std::uint32_t index;
  NodeId node;
};
using PlacementEffect = std::variant<Placed, Unplaceable, GroupPlaced, GroupUnplaceable, BundleFreed>;
using PlacementEffects = std::vector<PlacementEffect>;

/// Decides on which node the process of each actor runs, and with which of the node's resources; and which nodes have
/// the bundles of groups. Each node decides by itself what it gives to tasks: a node serves actors, as the head tells
/// it, before tasks.
///
/// Actors and groups that do not fit wait, in order. Actors with the same demand wait in one line, and only the first
/// of each line is examined. For the first of each line, and for each group, the resources that it asks for are set
/// aside as they become free, on nodes where it could go. This is a claim. Later requests may take the rest. So no
/// request is starved by smaller ones, and no two groups wait for each other, because on each node the older one comes
/// first.
/// Pure: events go in and effects come out. Owned by Head, and used on the head's strand. The number of actors and
/// groups that wait is not bounded here. Events about unknown nodes, actors and groups change nothing.
class Placement {
 public:
  /// Takes and gives back resources of this fleet, which has to outlive Placement.
  explicit Placement(Fleet& fleet) : fleet_{fleet} {}

  /// The node must not be known.
  PlacementEffects add_node(NodeId node, const Resources& total, Labels labels = {});
  /// The node is lost, and all that was placed on it. The actors that had a place there are forgotten, and no effect
  /// names them. Actors that wait and could fit on no other node are answered with Unplaceable. Groups that had bundles
  /// on the node wait for other places, without a time limit; GroupPlaced names the new places.
  PlacementEffects remove_node(NodeId node);
  /// Nothing new is placed on the node until open_node(). Actors and bundles on the node stay. Actors of groups get no
  /// room in these bundles, and wait until open_node(), or until the bundles have other places after remove_node().
  PlacementEffects close_node(NodeId node);
  PlacementEffects open_node(NodeId node);

  /// Places an actor, which must be unknown here. The answer is Placed, perhaps much later, or Unplaceable with
  /// kInvalidArgument, at once or when a node is lost or closed. `label` is for messages.
  PlacementEffects place(ActorId actor, const std::string& label, const Demand& demand, const Preference& preference);
  /// Places an actor in a group. The actor gets its resources from `bundle`, or from any bundle of the group if
  /// `bundle` is not set. The answer is Placed, perhaps much later, or Unplaceable: at once, with kNotFound if the
  /// group is unknown or removed and with kInvalidArgument if no bundle is large enough, or later with kActorDied, when
  /// the group is removed.
  PlacementEffects place_in_group(ActorId actor, const std::string& label, const Resources& amounts, GroupId group,
                                  std::optional<std::uint32_t> bundle);
  /// Gives back the actor's place, because its process is gone, or removes the actor from the queue if it waits.
  PlacementEffects give_back(ActorId actor);

  /// Places a group, whose id must be new. The answer is GroupPlaced, perhaps much later, or GroupUnplaceable with
  /// kInvalidArgument, at once. With `patient` a group that the nodes could never hold waits for nodes that join, until
  /// refuse_hopeless().
  PlacementEffects place_group(GroupId group, GroupSpec spec, bool patient = false);
  /// If the group waits, none of its bundles has a place, and the nodes could never hold it, answers with
  /// GroupUnplaceable; actors that wait for resources in it are answered with Unplaceable.
  PlacementEffects refuse_hopeless(GroupId group);
  /// Removes a group. Actors that wait for resources in it are answered with Unplaceable. Actors that have a place in
  /// it keep their resources until give_back(). BundleFreed follows for each bundle, when no actor has a place in the
  /// bundle any more.
  PlacementEffects remove_group(GroupId group);

  // ---- Restoring the state of another Placement, before the events above. Each function returns false, and changes
  // nothing, if the values contradict what is known.

  bool restore(ActorId actor, NodeId node, const Allotment& allotment);
  /// The group must have been restored before.
  bool restore_in_group(ActorId actor, GroupId group, std::uint32_t bundle, const Allotment& allotment);
  struct BundlePlace {
    NodeId node{};  ///< unset if the bundle has no place
    Allotment allotment{};
  };
  /// Bundles without a place wait for one after replace_group() is called. A bundle whose node is unknown or has too
  /// little room counts as one without a place. With kStrictPack it waits for room on the node of the other bundles.
  bool restore_group(GroupId group, GroupSpec spec, const std::vector<BundlePlace>& places);
  /// Takes the bundles off this node, which must be closed, of each group of which no actor has room in a bundle there.
  /// They get places on other nodes, or wait for some.
  PlacementEffects vacate(NodeId node);
  /// Gives places to the bundles that have none, as place_group() does.
  PlacementEffects replace_group(GroupId group);

  /// The place of one actor.
  struct Seat {
    NodeId node;
    const Allotment* allotment;
    GroupId group{};  ///< unset if the actor is in no group
    std::uint32_t bundle = 0;
  };
  /// Returns the place of the actor; nullopt if the actor waits or is unknown. The pointer is valid until the next
  /// event.
  std::optional<Seat> seat_of(ActorId actor) const;
  /// Returns nullptr if the group is unknown, or was removed and no actor has a place in it. Valid until the next
  /// event.
  const GroupState* find_group(GroupId group) const;

  /// The number of actors and groups that wait.
  std::size_t waiting() const { return waiting_; }
  const Fleet& fleet() const { return fleet_; }
  /// The reason why a demand waits.
  struct Shortage {
    /// How much of the scarce resources is in use on the nodes where the demand could fit; see Resources::use().
    std::string use;
    std::vector<ActorId> holders;  ///< actors that hold some of the scarce resources
  };
  Shortage shortage_of(const Demand& demand) const;
  /// The number of actors that have a place.
  std::size_t seated() const;
  /// For tests, between two events. Describes resources that are given twice, and resources that are neither given nor
  /// free; empty if all is right.
  std::string check() const;

 private:
  using Node = Fleet::Node;
  using Group = GroupState;
  struct Waiting {
    ActorId actor;
    std::string label;
    Preference preference;
  };
  /// Actors with the same demand that wait.
  struct Line {
    const Demand* demand;
    std::map<std::uint64_t, Waiting> waiting{};  // by number; never empty
    NodeId claim{};                              // the node that has the claim of the first actor
  };
  /// The turn of one line or of one group: one of the two pointers is set.
  struct Turn {
    std::uint64_t number = 0;
    std::int64_t cpus = 0;  // the CPUs of the line's demand, for a quick check
    Line* line = nullptr;
    Group* group = nullptr;
  };
  /// All turns, sorted by number. They are in one vector, because all of them are examined whenever something becomes
  /// free.
  class Turns {
   public:
    void add(const Turn& turn) { turns_.insert(behind(turn.number), turn); }
    void erase(std::uint64_t number) {
      const auto at = behind(number);
      if (at != turns_.begin() && std::prev(at)->number == number) turns_.erase(std::prev(at));
    }
    auto begin() const { return turns_.begin(); }
    auto end() const { return turns_.end(); }
    /// Returns the first turn with a higher number.
    std::vector<Turn>::const_iterator behind(std::uint64_t number) const {
      return std::upper_bound(turns_.begin(), turns_.end(), number,
                              [](std::uint64_t asked, const Turn& each) { return asked < each.number; });
    }

   private:
    std::vector<Turn> turns_;
  };
  struct Place {
    Line* line = nullptr;  // set if the actor waits in this line, under this number
    std::uint64_t number = 0;
    NodeId node{};  // set if the actor has a place on this node
    Allotment allotment{};
    GroupId group{};  // set if the actor is in this group; the actor waits if `node` is unset
    std::uint32_t bundle = 0;
  };
  using Bundles = std::vector<std::uint32_t>;

  void seat(ActorId actor, Place place);

  // The lines of actors that wait.
  void wait_in_line(ActorId actor, const std::string& label, const Demand& demand, const Preference& preference,
                    Node& claim);
  void serve_first(Line& line, Node& node, PlacementEffects& effects);
  void leave_line(Line& line, std::uint64_t number);
  void wait_elsewhere(Line& line, PlacementEffects& effects);
  void settle(PlacementEffects& effects);
  void settle_at(Node& node, PlacementEffects& effects);
  bool settle_line_at(Line& line, Node& node, const Resources& room, PlacementEffects& effects);
  bool settle_group_at(Group& group, Node& node, const Resources& room, PlacementEffects& effects);

  // Placement groups.
  bool place_now(Group& group, std::uint64_t number, PlacementEffects& effects);
  bool make_plan(Group& group);
  void drop_plan(Group& group);
  void put(Group& group, const std::vector<Node*>& nodes, const Bundles& missing, PlacementEffects& effects);
  void end_waiting(Group& group);
  void serve_group(Group& group, PlacementEffects& effects);
  void free_if_unused(Group& group, std::uint32_t bundle, PlacementEffects& effects);
  void wait_for_places(Group& group, PlacementEffects& effects);

  Fleet& fleet_;
  std::map<Demand, Line> lines_;
  Turns turns_;  // turns of the first actor of each line, and of groups that wait
  std::unordered_map<GroupId, Group> groups_;
  std::unordered_map<ActorId, Place> places_;
  std::unordered_map<NodeId, std::unordered_set<ActorId>> seated_;  // actors with a place on the node
  std::set<NodeId> unsettled_;                                      // nodes on which something that waits may have room
  std::uint64_t last_number_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace pharos::scheduler
