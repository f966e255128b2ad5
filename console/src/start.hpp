#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/node/daemon.hpp>

namespace pharos::console {

/// The options of `pharos start`.
struct StartOptions {
  bool head = false;
  bool block = false;                   ///< true: runs in this process until Ctrl-C; false: in the background
  std::optional<std::uint16_t> port{};  ///< the port of a head; unset: 7400; 0: a free port
  std::string base_folder;              ///< where the run folder is made; empty: the default place
  node::DaemonOptions daemon;
};

/// Starts a head, which is also a node, or another node. Prints how to go on, and returns the exit status.
Result<int> start(StartOptions options);

}  // namespace pharos::console
