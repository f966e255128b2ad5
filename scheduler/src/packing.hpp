#pragma once

#include <functional>
#include <set>
#include <vector>

#include <pharos/scheduler/fleet.hpp>
#include <pharos/scheduler/placement.hpp>

namespace pharos::scheduler {

/// Where several bundles may go at once.
struct Packing {
  std::vector<Fleet::Node*> nodes;                                 ///< in the order in which they are tried
  std::function<bool(const Fleet::Node&, const Demand&)> may_fit;  ///< without a look at the other bundles
  std::function<Ledger(const Fleet::Node&)> room;
  std::multiset<NodeId> taken;  ///< by other bundles of the group
};

/// A node for each of the bundles, in their order; none when they do not all fit at once. Packing many things into few
/// places is hard in general: the largest go first, each to the first node that has room. So in rare cases, of bundles
/// of several kinds, a way is not found though there is one; with kStrictPack, and with kStrictSpread, it always is.
std::vector<Fleet::Node*> pack(const std::vector<const Demand*>& bundles, Strategy strategy, const Packing& packing);

}  // namespace pharos::scheduler
