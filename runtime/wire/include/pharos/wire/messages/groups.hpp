#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>
#include <pharos/wire/strategy.hpp>

// Placement groups. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Caller to node, which tells the head. Answered by GroupReady.
/// Asks for a placement group: bundles of resources that are all reserved, or none of them.
struct PlaceGroup {
  GroupId group;
  std::string label{};
  Strategy strategy = Strategy::kPack;
  std::vector<Demand> bundles{};
  Asker asker{};
};
/// The answer to PlaceGroup.
/// All nodes have reserved the resources of the group's bundles.
struct GroupReady {
  std::uint64_t number = 0;     ///< in an answer of the head: Asker::number of the question
  std::vector<NodeId> nodes{};  ///< the node of each bundle
};
/// Caller to node, which tells the head. Not answered. A PlaceGroup of the group that waits fails with kCancelled.
struct RemoveGroup {
  GroupId group;
  Asker asker{};
};
/// Head to node. Answered by BundleHeld, when tasks have left what it needs.
/// Tells a node to reserve resources for one bundle. The bundle gets them before tasks that wait.
struct HoldBundle {
  GroupId group;
  std::uint32_t bundle = 0;
  Amounts amounts{};
  std::vector<GpuShare> gpus{};
};
/// Node to head.
struct BundleHeld {
  GroupId group;
  std::uint32_t bundle = 0;
};
/// Head to node.
struct ReleaseBundle {
  GroupId group;
  std::uint32_t bundle = 0;
};

}  // namespace pharos::wire
