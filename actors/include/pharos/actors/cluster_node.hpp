#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <pharos/base/id.hpp>

namespace pharos {

/// Amounts of resources by name: "cpu", "gpu", "memory" in bytes, and names of your own.
using ResourceAmounts = std::map<std::string, double>;

/// What the cluster has, or a part of it. A value.
struct ClusterResources {
  ResourceAmounts has{};
  ResourceAmounts in_use{};  ///< by actors and tasks
};

/// A node of the cluster, as the head knows it: see Runtime::nodes(). A value.
struct ClusterNode {
  enum class State : std::uint8_t {
    kAlive,
    kSilent,  ///< It has not been heard for a while, and may soon be given up.
    kDrains,  ///< It is being emptied, and gets nothing new.
  };

  NodeId id{};
  std::string address{};  ///< HOST:PORT; empty for the head's own node
  State state = State::kAlive;
  ClusterResources resources{};
  std::map<std::string, std::string> labels{};
};

}  // namespace pharos
