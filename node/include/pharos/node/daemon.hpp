#pragma once

#include <cstdint>
#include <string>

#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/process/keeper.hpp>

namespace pharos::node {

struct DaemonOptions {
  std::string listen;                 ///< "127.0.0.1:7400"; empty: a driver's daemon does not, a node takes a free port
  std::uint32_t cpus = 0;             ///< 0: what `resources` says, else as many as this process may use
  std::string resources{};            ///< "gpu=2,memory=8GiB,fast_disk=1"
  std::string labels{};               ///< "zone=a,disk=ssd"
  std::string head;                   ///< the head to join, "10.0.0.1:7400"; empty: this daemon is the head too
  std::string state{};                ///< a folder for what the head must not lose; empty: it ends with the head
  bool ends_words_with_zero = false;  ///< a zero behind what it says of itself
  std::string token_file{};           ///< what to tell people who want to join
  /// When more than this part of memory is in use, workers are killed. 1: never.
  double memory_threshold = 0.95;
  /// Bytes that objects may take. 0: half of what the machine has, or the cgroup allows.
  std::uint64_t object_store = 0;
  /// Where objects go that have no room in memory; "none": nowhere.
  std::string spill_folder = "/var/tmp";
  /// Seconds that what runs on a node of another head has to go elsewhere, once it is told to end. 0: it ends at once.
  std::uint32_t grace = 0;
};

/// The daemon of one program: serves the driver at the other end of `driver` (its Preamble, with the cluster's token,
/// not yet read) and those that connect, until that driver is gone. Head and node in one; or with `head`, a node of
/// that cluster which runs nothing itself, and is there because a driver needs one beside it. Returns the exit status.
int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options);

/// What the pharos program ends with: 2, the arguments make no sense; 1, something else has failed.
inline int exit_status_of(const Error& why) {
  return why.code() == ErrorCode::kInvalidArgument ? 2 : 1;
}
/// The exit status of a node that its cluster has given up: it is to be started again, as another one.
inline constexpr int kBeginAnew = 75;

/// The daemon that people start: a head that is a node too, or with `head`, a node of that cluster. Says on standard
/// output how to join it, and ends with SIGTERM or SIGINT, after `grace` or at the second one, or with its head.
/// Returns the exit status.
int run_daemon(process::Kept kept, const net::Key& token, const DaemonOptions& options);

}  // namespace pharos::node
