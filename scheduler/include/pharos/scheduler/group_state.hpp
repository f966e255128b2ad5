#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/fleet.hpp>
#include <pharos/wire/strategy.hpp>

namespace pharos::scheduler {

/// A placement group: resources that are given all together or not at all. Each bundle is on one node. A plain value.
/// GroupTable, which asks for the group, checks kBundlesMax; Placement does not.
struct GroupSpec {
  static constexpr std::size_t kBundlesMax = 4096;

  std::string label;  ///< for messages
  std::vector<Demand> bundles;
  Strategy strategy = Strategy::kPack;
};

/// The state of a placement group: the places of its bundles, and the actors that wait for room in them. Owned by
/// Placement, which alone changes it, on the strand of the head. The nodes' resources belong to the Fleet: no function
/// here takes them or gives them back.
struct GroupState {
  struct Bundle {
    Demand demand;
    NodeId node{};  ///< unset if the bundle has no place
    Allotment allotment{};
    std::optional<ResourceLedger> ledger{};  ///< what actors have of the bundle; set as long as `node` is set
    std::size_t users = 0;                   ///< actors that have room in the bundle
  };
  /// An actor that waits for room in a bundle.
  struct Waiting {
    ActorId actor;
    std::string label;
    Resources amounts;
    std::optional<std::uint32_t> bundle;
  };
  /// An actor that has got room in a bundle.
  struct Served {
    ActorId actor;
    std::uint32_t bundle;
    Allotment allotment;
  };

  /// A group of which no bundle has a place.
  GroupState(GroupId id, GroupSpec spec, std::uint64_t number);

  /// Returns the bundles that have no place.
  std::vector<std::uint32_t> missing() const;
  bool has_bundle_at(NodeId node) const;
  /// Returns nodes for these bundles; empty if they do not all fit. With `number`, finds places in what is left after
  /// the claims with smaller numbers; without it, as if nothing were taken.
  std::vector<Fleet::Node*> find_places(const Fleet& fleet, const std::vector<std::uint32_t>& bundles,
                                        std::optional<std::uint64_t> number) const;
  /// Returns what these bundles ask for.
  std::vector<const Resources*> amounts_of(const std::vector<std::uint32_t>& bundles) const;
  /// Returns whether the nodes of the plan have the room now; otherwise `lacking` is the first that has not.
  bool plan_holds(const Fleet& fleet);
  /// Makes the error for a group that fits nowhere.
  Error too_much(const Fleet& fleet) const;
  /// Gives room in the bundles to the actors that wait, in their order, but none on closed nodes. For an actor that
  /// does not fit, its amounts are set aside in the bundle. Each actor in `line` must fit into some bundle when the
  /// bundle is empty.
  std::vector<Served> serve(const Fleet& fleet);
  /// The bundles on this node lose their places, and forget what actors had of them. Returns whether there was one.
  bool lose_node(NodeId node);

  GroupId id;
  std::string label;
  Strategy strategy;
  std::vector<Bundle> bundles;
  std::uint64_t number;  ///< the place of the group among all that wait
  bool waits = false;    ///< some bundles wait for places
  /// The nodes that have claims of this group, and the bundles that are to go there. Empty if there is no plan.
  std::map<NodeId, std::vector<std::uint32_t>> plan{};
  /// The node of the plan that had no room when the plan was last checked.
  NodeId lacking{};
  /// How many occasions to place the group elsewhere than planned are skipped; grows with each attempt that fails.
  std::uint32_t tries_off = 0;
  std::uint32_t tries_next = 0;
  std::list<Waiting> line{};
  bool removed = false;
};

}  // namespace pharos::scheduler
