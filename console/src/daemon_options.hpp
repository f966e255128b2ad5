#pragma once

#include <CLI/CLI.hpp>

#include <pharos/node/daemon.hpp>

namespace pharos::console {

// Options of a daemon, for `pharos start` and for daemons that programs start for themselves. The command writes the
// values to `daemon` when it parses the arguments, so `daemon` must live until then.

void add_store_options(CLI::App& command, node::DaemonOptions& daemon);
/// The environment variables also apply if a program starts its own daemon.
void add_resource_options(CLI::App& command, node::DaemonOptions& daemon);

}  // namespace pharos::console
