#pragma once

#include <cstdint>
#include <string>

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

}  // namespace pharos::node
