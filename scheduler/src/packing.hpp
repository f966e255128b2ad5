#pragma once

#include <functional>
#include <set>
#include <vector>

#include <pharos/scheduler/fleet.hpp>
#include <pharos/wire/strategy.hpp>

namespace pharos::scheduler {

/// The nodes where several bundles may be placed at the same time. GroupState::find_places() makes this value for one
/// call of pack().
struct Packing {
  std::vector<Fleet::Node*> nodes;                                 ///< in the order in which they are tried
  std::function<bool(const Fleet::Node&, const Demand&)> may_fit;  ///< may consider this bundle alone
  std::function<ResourceLedger(const Fleet::Node&)> room;
  /// Nodes of the other bundles of the group, which are placed already.
  std::multiset<NodeId> taken;
};

/// Returns a node for each of the bundles, in the order of the bundles; empty if they do not all fit at the same time.
/// Finding the best packing is hard in general, so this is a heuristic: the largest bundle goes first, each to the
/// first node that has room. In rare cases, with bundles of several kinds, no packing is found although one exists.
/// With kStrictSpread a packing is always found if one exists, and with kStrictPack too unless
/// ResourceLedger::find_allotments() gives up. Changes no node: the caller takes the resources.
std::vector<Fleet::Node*> pack(const std::vector<const Demand*>& bundles, Strategy strategy, const Packing& packing);

}  // namespace pharos::scheduler
