#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::actors {

/// A connection to a node, before the handshake.
struct NodeConnection {
  Fd socket;
  net::Key key;
  pid_t keeper = 0;  ///< of a daemon of its own: this process's child, for it to reap
  std::string name;  ///< the daemon's executable or the address, for errors
};

/// Starts keeper and daemon for this program alone. Its failures name the file or folder that is wrong.
Result<NodeConnection> start_embedded_cluster(const RuntimeOptions& options);

/// Connects to a node of this machine by its Unix socket; or starts a node of this program's own that joins the head at
/// the address.
Result<NodeConnection> join_cluster(const RuntimeOptions& options);

/// The pharos executable: PHAROS_DAEMON, else beside libpharos.so.
Result<std::string> find_daemon();

}  // namespace pharos::actors
