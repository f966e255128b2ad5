#pragma once

#include <string>

#include <pharos/base/id.hpp>

namespace pharos::node {

/// Says for users which node this is. `address` is as in wire::ActorAlive: empty for the head's own node. A pure
/// function.
inline std::string describe_node(NodeId node, const std::string& address) {
  return "node " + to_string(node) + (address.empty() ? ", the head's" : ", at " + address);
}

}  // namespace pharos::node
