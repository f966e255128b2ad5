#pragma once

#include <string>

#include <pharos/base/id.hpp>

namespace pharos::node {

/// Which node it is, for people. `address`: as in wire::ActorAlive.
inline std::string describe_node(NodeId node, const std::string& address) {
  return "node " + to_string(node) + (address.empty() ? ", the head's" : ", at " + address);
}

}  // namespace pharos::node
