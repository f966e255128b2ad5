#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// The placement groups of a cluster: which caller has asked for each, and which nodes have set its bundles aside.
/// Placement chooses the nodes. Tasks may still use the resources there, so each node is asked to set its bundles
/// aside, and the group is ready when all nodes have done so. This waits for room and for tasks without a limit.
/// Messages about unknown groups, or from a caller or a node that they do not concern, are ignored.
/// Owned by Head; on its strand. The destructor answers nobody. Pointers that it returns are valid until the group is
/// removed.
class GroupTable {
 public:
  struct Group {
    wire::Asker asker;
    NodeId asked_from;
    std::string label;
    Strategy strategy;
    std::vector<scheduler::Demand> bundles;
    std::vector<NodeId> nodes;                 ///< node of each bundle; unset: the bundle has no place
    std::unordered_set<std::uint32_t> unheld;  ///< bundles that their nodes have not set aside yet
    bool answered = false;
    std::unordered_set<std::uint32_t> restored{};  ///< bundles of the records that their nodes have not reported yet
    std::uint32_t last_spot = 0;                   ///< the bundle that find_spot() has found last
    Duration patience{};  ///< how long it waits for nodes that join, if the nodes could never hold it
    bool has_places() const;
  };

  GroupTable(Events& events, scheduler::Placement& placement, Recovery& recovery, Effects& effects)
      : events_{events}, placement_{placement}, recovery_{recovery}, effects_{effects} {}

  // ---- Messages

  /// The answer is GroupReady once all bundles are set aside, or Refused: kInvalidArgument if the request makes no
  /// sense or could fit on no nodes (perhaps after a wait for nodes that join), kAlreadyExists for the id of another
  /// caller's group, kCancelled if the group is removed before. In a recovery a new group is put off until its end.
  void place(NodeId from, wire::PlaceGroup place);
  void remove(NodeId from, const wire::RemoveGroup& remove);
  void note_held(NodeId from, const wire::BundleHeld& held);

  // ---- Effects of Placement

  void note_placed(const scheduler::GroupPlaced& placed);
  void refuse(const scheduler::GroupUnplaceable& refused);
  void release(const scheduler::BundleFreed& freed);

  // ---- Events elsewhere

  /// Remove the groups that this caller, or a caller of this job, has asked for.
  void end_caller(CallerId caller);
  void end_job(JobId job);
  /// The bundles at this node are lost, and wait for other places; a caller that has its answer gets no second one. To
  /// be called before Placement hears of it.
  void lose_node(NodeId node);

  /// Returns whether an actor or a task of this job may use the group that it asks for, if any.
  bool may_use(const wire::Demand& demand, JobId job) const;
  /// Where a task of a group may run.
  struct Spot {
    NodeId node;
    std::uint32_t bundle = 0;
  };
  /// Finds a bundle for a task, whose demand checked() has accepted: the one that it asks for, or each of those in turn
  /// that are large enough, first of all those where actors leave it room. nullopt if none has a place at the moment.
  /// kNotFound if the group is not one of this job, and kInvalidArgument if it has no such bundle, or none that is
  /// large enough. `but_not` is a bundle that will not do.
  Result<std::optional<Spot>> find_spot(const wire::Demand& demand, JobId job, std::optional<std::uint32_t> but_not);
  const Group* find(GroupId group) const;
  const std::unordered_map<GroupId, Group>& all() const { return groups_; }

  // ---- Records and recovery

  /// Records the groups that have changed in the present event.
  void write_changes();
  /// Adds what the records have to contain, as Head::recorded().
  void add_records(std::map<std::string, std::optional<wire::Message>>& to) const;
  /// Restores a group from its two records. Returns false if they do not fit. Of a group whose job is over (`job_lasts`
  /// is false) nothing is restored: the nodes end the actors that still use it.
  bool restore(const wire::PlaceGroup* place, const wire::GroupPlaces* places, bool job_lasts);
  /// Removes the group again that an earlier head had removed, except for what actors still use of it.
  void remove_again(GroupId group);
  /// Lets the bundles that have lost their places wait for others.
  void replace_all();
  void take_report(NodeId from, const wire::Report& report);

 private:
  void refuse_later(GroupId group, Duration patience);
  std::optional<wire::GroupPlaces> places_record(GroupId group) const;
  void remove(GroupId group);
  void remove_if(const std::function<bool(const Group&)>& goes);
  void hold(GroupId group, std::uint32_t index, NodeId node, const scheduler::Allotment& allotment);
  void answer_if_held(Group& group);

  Events& events_;
  scheduler::Placement& placement_;
  Recovery& recovery_;
  Effects& effects_;
  std::unordered_map<GroupId, Group> groups_;
  std::unordered_set<GroupId> changed_;  // groups whose places have changed in the present event
  std::unordered_set<GroupId> removed_;  // removed groups of which actors still use a part
};

}  // namespace pharos::node::head
