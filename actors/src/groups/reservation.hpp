#pragma once

#include <memory>

#include <pharos/actors/placement_group.hpp>

#include "caller/node_line.hpp"
#include "groups/group_handle.hpp"

namespace pharos::actors {

/// Asks the node for a placement group. `nodes` is a pending cell, which gets the node of each bundle once all bundles
/// have a place. Throws InvalidArgument if the options make no sense. Any thread.
std::shared_ptr<detail::GroupHandle> reserve(const std::shared_ptr<NodeLine>& line, const detail::CellHandle& nodes,
                                             const GroupOptions& options);

}  // namespace pharos::actors
