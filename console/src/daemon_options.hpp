#pragma once

#include <CLI/CLI.hpp>

#include <pharos/node/daemon.hpp>

namespace pharos::console {

// Options of a daemon, for `pharos start` and for daemons that programs start for themselves.

void add_store_options(CLI::App& command, node::DaemonOptions& daemon);
/// The environment variables also apply if a program starts its own daemon.
void add_resource_options(CLI::App& command, node::DaemonOptions& daemon);

}  // namespace pharos::console
