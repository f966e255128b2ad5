#pragma once

#include <cstddef>
#include <memory>

#include <pharos/actors/placement_group.hpp>

#include "caller/node_line.hpp"
#include "groups/group_handle.hpp"

namespace pharos::actors {

/// Asks the node for a placement group. `nodes` is a pending cell, which gets the node of each bundle once all bundles
/// have a place. Throws InvalidArgument if a name or an amount makes no sense, and RuntimeStopped in a child of fork().
/// `nodes` gets kInvalidArgument if the cluster could never have the resources or the number of bundles is wrong,
/// kCancelled if the group is removed first, and kRuntimeStopped if the Runtime ends. cancel() of `nodes` removes the
/// group. Caller calls this, on any thread. The group ends with the last share of the returned handle.
std::shared_ptr<detail::GroupHandle> reserve(const std::shared_ptr<NodeLine>& line, const detail::CellHandle& nodes,
                                             const GroupOptions& options);
/// A placement group that another process has sent; `nodes` has the node of each bundle.
std::shared_ptr<detail::GroupHandle> adopt(const std::shared_ptr<NodeLine>& line, GroupId id, std::size_t size,
                                           const detail::CellHandle& nodes);

}  // namespace pharos::actors
