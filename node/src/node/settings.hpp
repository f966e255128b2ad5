#pragma once

#include <string>

#include <pharos/base/id.hpp>

#include "daemon/machine.hpp"
#include "logs/logs.hpp"
#include "store/store_service.hpp"

namespace pharos::node {

/// How a node runs. A value: the daemon makes it, and Site keeps it. Nothing here is checked.
struct NodeSettings {
  NodeId id;
  std::string address;       ///< address of the node's Unix socket
  std::string head_address;  ///< empty: the head is in this process
  Machine machine;
  StoreService::Settings object_store;
  Logs::Settings logs{};
  double memory_threshold = 0.95;  ///< fraction of memory in use above which workers are killed
};

}  // namespace pharos::node
