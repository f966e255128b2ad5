#pragma once

#include <cstdint>
#include <string>

#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/process/keeper.hpp>

namespace pharos::node {

/// How a daemon runs: the options of `pharos start`, or those that a driver's Runtime gives to its own daemon. A value.
/// run_daemon() checks it.
struct DaemonOptions {
  /// TCP address to listen at, "127.0.0.1:7400". If it is empty, a driver's daemon without `head` does not listen on
  /// TCP, and a node that joins a head takes a free port. A head that users start needs an address.
  std::string listen;
  /// CPUs that the node offers. 0: the number in `resources`, or else as many as this process may use.
  std::uint32_t cpus = 0;
  std::string resources{};  ///< resources that the node offers, "gpu=2,memory=8GiB,fast_disk=1"
  std::string labels{};     ///< labels of the node, "zone=a,disk=ssd"
  std::string head;         ///< address of the head to join, "10.0.0.1:7400"; empty: this daemon is the head too
  std::string state{};      ///< folder for the records of the head; empty: the cluster's state is lost with the head
  /// If true, a zero byte follows the text that the daemon prints at its start. A process that starts the daemon in the
  /// background reads up to this byte.
  bool ends_words_with_zero = false;
  /// Path of the token file that the daemon prints for users who want to join. Empty: the copy in the run folder.
  std::string token_file{};
  /// Fraction of memory in use above which the node kills workers. 1: it never does.
  double memory_threshold = 0.95;
  /// Bytes that objects may take. 0: half of the memory that the machine has or that the cgroup allows.
  std::uint64_t object_store = 0;
  /// Folder for objects that have no room in memory; "none": objects stay in memory.
  std::string spill_folder = "/var/tmp";
  /// Seconds that actors and tasks have to go elsewhere when a node that has joined a head is told to end by a signal.
  /// 0: the node ends at once.
  std::uint32_t grace = 0;
};

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
int run_daemon(process::Kept kept, const net::Key& token, const DaemonOptions& options);

}  // namespace pharos::node
