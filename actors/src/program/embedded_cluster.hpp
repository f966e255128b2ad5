#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <pharos/actors/runtime_options.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::actors {

/// A connection to a node before the handshake. A value, which Driver takes. When the socket is closed, the program's
/// own daemon ends, and after it the keeper.
struct NodeConnection {
  Fd socket;
  net::Key key;
  pid_t keeper = 0;  ///< The keeper of the program's own daemon: a child process, which the caller reaps; 0 if none.
  std::string name;  ///< The daemon's executable or the node's address, for error messages.
};

/// Starts a keeper and a daemon for this program alone, and does not wait until they are ready: if they fail, the
/// handshake fails. The message of an error names the file or folder that is wrong: kNotFound (no executable),
/// kInvalidArgument (`listen` is no address), kPermissionDenied, or the errno of a system call. Driver calls these
/// functions, on the thread that makes the Runtime.
Result<NodeConnection> start_embedded_cluster(const RuntimeOptions& options);

/// Joins the cluster at `options.address`. If the address is a Unix socket, connects to the node of this machine that
/// listens there. If it is a TCP address, starts a node for this program alone, which joins the head at that address.
/// kInvalidArgument if the address is none; kPermissionDenied if no token file is known for the cluster, or the file
/// cannot be used. The connection to a Unix socket is given up after 10 seconds (kDeadlineExceeded). A host name is
/// looked up first, which may block, too.
Result<NodeConnection> join_cluster(const RuntimeOptions& options);

/// Returns the path of the pharos executable: the file that PHAROS_DAEMON names, else `../bin/pharos` or `pharos` in
/// the folder of libpharos.so. kNotFound if there is none.
Result<std::string> find_daemon();

}  // namespace pharos::actors
