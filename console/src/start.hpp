#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>
#include <pharos/node/daemon.hpp>

namespace pharos::console {

/// What `pharos start` was told.
struct StartOptions {
  bool head = false;
  bool block = false;                   ///< runs here, until Ctrl-C; else in the background
  std::optional<std::uint16_t> port{};  ///< of a head; none: 7400, and 0: a free one
  std::string base_folder;              ///< where its run folder is made; empty: as everywhere
  node::DaemonOptions daemon;
};

/// Starts a head, which is a node too, or a node. Prints how to go on. The exit status.
Result<int> start(StartOptions options);

}  // namespace pharos::console
