#pragma once

#include <cstdint>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/process/keeper.hpp>

namespace pharos::node {

struct DaemonOptions {
  std::string listen;      ///< "127.0.0.1:7000", or empty for the Unix socket alone
  std::uint32_t cpus = 0;  ///< 0: as many as this process may use
  /// Bytes that objects may take. 0: half of what the machine has, or the cgroup allows.
  std::uint64_t object_store = 0;
};

/// The daemon of an embedded cluster, head and node in one: serves the driver at the other end of `driver` (its
/// Preamble not yet read) and those that connect, until that driver is gone. Returns the exit status.
int run_daemon(process::Kept kept, Fd driver, const DaemonOptions& options);

}  // namespace pharos::node
