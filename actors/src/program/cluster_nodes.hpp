#pragma once

#include <vector>

#include <pharos/actors/cluster_node.hpp>
#include <pharos/base/result.hpp>

#include "caller/node_line.hpp"

namespace pharos::actors {

/// Asks the head for the nodes of the cluster, and waits for its answer without a limit. Not to be called on the
/// strand. Fails with kRuntimeStopped, or as NodeLine::request() does.
Result<std::vector<ClusterNode>> ask_for_nodes(NodeLine& line);

}  // namespace pharos::actors
