#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
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
#include <pharos/base/strategy.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/resources.hpp>

namespace pharos::scheduler {

/// Resources that are had together or not at all; each bundle is on one node.
struct GroupSpec {
  static constexpr std::size_t kBundlesMax = 4096;

  std::string label;  ///< for messages
  std::vector<Demand> bundles;
  Strategy strategy = Strategy::kPack;
};

/// This actor's process is to be started on this node, with these resources of it.
struct Placed {
  ActorId actor;
  NodeId node;
  Allotment allotment;
  std::optional<std::uint32_t> bundle{};  ///< of its group, if it has one
};
/// No node has that much, even with nothing taken.
struct Unplaceable {
  ActorId actor;
  Error why;
};
/// One bundle of a group has its place.
struct PlacedBundle {
  std::uint32_t index;
  NodeId node;
  Allotment allotment;
};
/// All bundles that had no place have one: at first all there are, later those whose nodes were lost.
struct GroupPlaced {
  GroupId group;
  std::vector<PlacedBundle> bundles;
};
/// There is no way to place it, even with nothing taken. It is forgotten.
struct GroupUnplaceable {
  GroupId group;
  Error why;
};
/// What this bundle had is the node's again.
struct BundleFreed {
  GroupId group;
  std::uint32_t index;
  NodeId node;
};
using PlacementEffect = std::variant<Placed, Unplaceable, GroupPlaced, GroupUnplaceable, BundleFreed>;
using PlacementEffects = std::vector<PlacementEffect>;

/// Which node has which actor's process, and with which of its resources; and which have the bundles of groups. What
/// tasks have is the nodes' own business: they give to actors what the head says, before they give to tasks.
///
/// Who does not fit waits, in order: those who ask for the same in one line, of which only the first is looked at. For
/// the first of each line, and for each group, something is set aside: what it asks for, on nodes where it could go, as
/// it becomes free there. Who came later may take the rest. So nobody is starved by what is smaller, and no two groups
/// wait for each other: on each node the older one comes first.
/// Pure: events in, effects out. One thread.
class Placement {
 public:
  PlacementEffects add_node(NodeId node, const Resources& total, Labels labels = {});
  /// It is lost, and whatever was placed there. Those who wait and fit nowhere any more are told; groups that had
  /// bundles there wait for others, for as long as it takes.
  PlacementEffects remove_node(NodeId node);
  /// Nothing new is placed there, until it is opened again.
  PlacementEffects close_node(NodeId node);
  PlacementEffects open_node(NodeId node);
  /// What it has given to tasks. New ones go elsewhere while there is room elsewhere.
  void note_tasks(NodeId node, Resources in_use);

  /// Answered by Placed, perhaps much later, or Unplaceable, at once or when a node goes. `label` is for messages.
  PlacementEffects place(ActorId actor, const std::string& label, const Demand& demand, const Preference& preference);
  /// With what this bundle of the group has, or any of them.
  PlacementEffects place_in_group(ActorId actor, const std::string& label, const Resources& amounts, GroupId group,
                                  std::optional<std::uint32_t> bundle);
  /// It is not placed any more, or wanted to be: the process is gone.
  PlacementEffects give_back(ActorId actor);

  /// Answered by GroupPlaced, perhaps much later, or GroupUnplaceable.
  PlacementEffects place_group(GroupId group, GroupSpec spec);
  /// Actors that wait for something in it are refused; what others have there they have until they give it back.
  PlacementEffects remove_group(GroupId group);

  // ---- As another Placement had it, before the events above. False: that makes no sense here, and nothing has
  // changed.

  bool restore(ActorId actor, NodeId node, const Allotment& allotment);
  /// Of a group that is there.
  bool restore_in_group(ActorId actor, GroupId group, std::uint32_t bundle, const Allotment& allotment);
  struct BundlePlace {
    NodeId node{};  ///< none: it has no place
    Allotment allotment{};
  };
  /// Bundles without a place wait for one from replace_group() on.
  bool restore_group(GroupId group, GroupSpec spec, const std::vector<BundlePlace>& places);
  /// Bundles of it that have no place get one, as in place_group().
  PlacementEffects replace_group(GroupId group);

  /// Where an actor is.
  struct Seat {
    NodeId node;
    const Allotment* allotment;
    GroupId group{};  ///< none: in no group
    std::uint32_t bundle = 0;
  };
  /// None: it waits, or is not known. Valid until the next event.
  std::optional<Seat> seat_of(ActorId actor) const;
  /// Of each bundle. Empty: the group is not known, or was removed and has none left.
  std::vector<BundlePlace> places_of(GroupId group) const;

  /// Actors and groups.
  std::size_t waiting() const { return waiting_; }
  const Fleet& fleet() const { return fleet_; }
  /// What keeps an actor waiting.
  struct Shortage {
    std::string use;               ///< of what is scarce where it could be, in words, as Resources::use() has it
    std::vector<ActorId> holders;  ///< of some of that
  };
  Shortage shortage_of(const Demand& demand) const;
  /// Where a task is to run: where there is room, or else, of those that could ever, where the least is in use. Near a
  /// node only if there is room beside its tasks. kInvalidArgument when there is none. What it asks for counts as that
  /// node's tasks' until note_tasks().
  Result<NodeId> find_node(const Demand& demand, const Preference& preference, const std::string& who);
  /// The same where there is room at this moment beside tasks, but not at `except`. None: nowhere.
  std::optional<NodeId> take_room(const Demand& demand, NodeId near, NodeId except);
  /// So many more, or fewer, leases of its workers have been given to callers elsewhere.
  void count_leases(NodeId node, int more);
  /// Actors that have a place.
  std::size_t seated() const;
  /// For tests, between two events: who has what another has, and what nobody has and is not free. Empty: nothing.
  std::string check() const;

 private:
  using Node = Fleet::Node;
  struct Waiting {
    ActorId actor;
    std::string label;
    Preference preference;
  };
  /// Actors that ask for the same.
  struct Line {
    const Demand* demand;
    std::map<std::uint64_t, Waiting> waiting{};  // by number; never empty
    NodeId claim{};                              // where something is set aside for the first one
  };
  struct Bundle {
    Demand demand;
    NodeId node{};  // none: it has no place
    Allotment allotment{};
    std::optional<Ledger> ledger{};
    std::size_t users = 0;
  };
  struct InGroup {
    ActorId actor;
    std::string label;
    Resources amounts;
    std::optional<std::uint32_t> bundle;
  };
  struct Group {
    GroupId id;
    std::string label;
    Strategy strategy;
    std::vector<Bundle> bundles;
    std::uint64_t number;                                    // of its turn
    bool waits = false;                                      // for places of some bundles
    std::map<NodeId, std::vector<std::uint32_t>> plan = {};  // where something is set aside for those; none: nowhere
    NodeId lacking = {};                                     // of the plan: where there was no room yet
    std::uint32_t tries_off = 0;                             // to place it elsewhere, after so many in vain
    std::uint32_t tries_next = 0;
    std::list<InGroup> line = {};
    bool removed = false;
  };
  /// One of the two.
  struct Turn {
    std::uint64_t number = 0;
    std::int64_t cpus = 0;  // that the line's demand has; for a quick look
    Line* line = nullptr;
    Group* group = nullptr;
  };
  /// In the order of their numbers, side by side: whenever something has become free all of them are looked at.
  class Turns {
   public:
    void add(const Turn& turn) { turns_.insert(behind(turn.number), turn); }
    void erase(std::uint64_t number) {
      const auto at = behind(number);
      if (at != turns_.begin() && std::prev(at)->number == number) turns_.erase(std::prev(at));
    }
    auto begin() const { return turns_.begin(); }
    auto end() const { return turns_.end(); }
    /// The first one with a higher number.
    std::vector<Turn>::const_iterator behind(std::uint64_t number) const {
      return std::upper_bound(turns_.begin(), turns_.end(), number,
                              [](std::uint64_t asked, const Turn& each) { return asked < each.number; });
    }

   private:
    std::vector<Turn> turns_;
  };
  struct Place {
    Line* line = nullptr;  // it waits there, with this number
    std::uint64_t number = 0;
    NodeId node{};  // else it is there
    Allotment allotment{};
    GroupId group{};  // in a group; without a node it waits
    std::uint32_t bundle = 0;
  };
  using Bundles = std::vector<std::uint32_t>;

  void seat(ActorId actor, Place place);

  // Lines.
  void wait_in_line(ActorId actor, const std::string& label, const Demand& demand, const Preference& preference,
                    Node& claim);
  void serve_first(Line& line, Node& node, PlacementEffects& effects);
  void leave_line(Line& line, std::uint64_t number);
  void wait_elsewhere(Line& line, PlacementEffects& effects);
  void settle(PlacementEffects& effects);
  void settle_at(Node& node, PlacementEffects& effects);
  bool settle_line_at(Line& line, Node& node, const Resources& room, PlacementEffects& effects);
  bool settle_group_at(Group& group, Node& node, const Resources& room, PlacementEffects& effects);

  void add_task(Node& node, const Demand& demand);

  // Groups.
  bool place_now(Group& group, std::uint64_t number, PlacementEffects& effects);
  bool make_plan(Group& group);
  void drop_plan(Group& group);
  bool plan_holds(Group& group);
  void put(Group& group, const std::vector<Node*>& nodes, const Bundles& missing, PlacementEffects& effects);
  void end_waiting(Group& group);
  void serve_group(Group& group, PlacementEffects& effects);
  void free_if_unused(Group& group, std::uint32_t bundle, PlacementEffects& effects);
  void lose_bundles_at(NodeId node, PlacementEffects& effects);
  void wait_for_places(Group& group, PlacementEffects& effects);
  static Bundles missing_of(const Group& group);
  std::vector<Node*> find_places(const Group& group, const Bundles& missing, std::optional<std::uint64_t> number) const;
  Error too_much(const Group& group) const;

  Fleet fleet_;
  std::map<Demand, Line> lines_;
  Turns turns_;  // the first of each line, and groups that wait
  std::unordered_map<GroupId, Group> groups_;
  std::unordered_map<ActorId, Place> places_;
  std::unordered_map<NodeId, std::unordered_set<ActorId>> seated_;  // whose places are there
  std::set<NodeId> unsettled_;                                      // where somebody may have room now
  std::uint64_t last_number_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace pharos::scheduler
