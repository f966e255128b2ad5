#pragma once

#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/token_ring.hpp>
#include <pharos/node/daemon_options.hpp>
#include <pharos/process/keeper.hpp>

namespace pharos::node {

/// Runs the daemon of one program until its driver is gone, and returns the exit status. `driver` is the socket to the
/// driver; the driver's Preamble, which carries the cluster's token, has not been read from it yet.
/// Without `head` the daemon is head and node in one. With `head` it is a node of that cluster which offers no
/// resources and runs nothing: it exists because a driver needs a node on its own machine.
/// Blocks. Call it once, on the only thread of the process that the keeper has forked.
/// Failure: if the options make no sense, or the run folder, the port or the head cannot be had (the head within 9 s),
/// the daemon refuses jobs with that error, and lives until its driver is gone. Returns 1 at once if no preamble comes
/// within 5 s.
/// Also ends, with 1, when the keeper or the head is gone or the cluster has given this node up; with 0 on SIGTERM,
/// SIGINT, SIGHUP (unless the process ignores it) or `pharos stop`. At the end it kills all processes below it, waits
/// up to 8 s for them, and removes the run folder.
int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options);

/// Returns the exit status of the pharos program for an error: 2 if the arguments make no sense, else 1.
inline int exit_status_of(const Error& why) {
  return why.code() == ErrorCode::kInvalidArgument ? 2 : 1;
}
/// The exit status of a node that its cluster has given up. Whoever runs the node starts it again, and it joins as
/// another node.
inline constexpr int kExitToRestartAsNewNode = 75;

/// Runs the daemon that users start, and returns the exit status: a head that is a node too, or with `head` a node of
/// that cluster. Prints on standard output how to join it.
/// Blocks. Call it once, on the only thread of the process that the keeper has forked.
/// Failure: prints the error on standard error and returns exit_status_of() that error; 1 if joining the head (tried
/// for 9 s) or reading the records fails.
/// Ends with 0 on SIGTERM, SIGINT or SIGHUP (unless the process ignores it), on `pharos stop`, and when its head is
/// told to end. A node with `grace` first drains, and ends when nothing runs there any more, after that time, or at the
/// second signal. Ends with 1 when the keeper or the head is gone, and with kExitToRestartAsNewNode. At the end it
/// kills all processes below it, waits up to 8 s for them, and removes the run folder.
int run_daemon(process::Kept kept, const net::TokenRing& tokens, const DaemonOptions& options);

}  // namespace pharos::node
