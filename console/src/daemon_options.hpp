#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

#include <pharos/node/daemon_options.hpp>

namespace pharos::console {

/// The port of a head that is given none.
inline constexpr std::uint16_t kDefaultPort = 7400;

// Options of a daemon, for `pharos start` and for daemons that programs start for themselves (`pharos keeper`): the
// functions that add these two commands call these. The parser writes the values to `daemon`, which must live until
// Commands::run() has returned. A value out of range ends run() with 2. Resources and labels are not checked here: the
// daemon refuses those that make no sense.

/// Adds --object-store and --spill-folder (PHAROS_SPILL_FOLDER).
void add_store_options(CLI::App& command, node::DaemonOptions& daemon);
/// Adds --cpus, --resources, --labels and --memory-threshold. The last three have environment variables, which also
/// apply if a program starts its own daemon.
void add_resource_options(CLI::App& command, node::DaemonOptions& daemon);

}  // namespace pharos::console
