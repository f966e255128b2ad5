#pragma once

#include <string>

namespace pharos::console {

/// `pharos memory`: prints what lies in a node's object store, who keeps it there, and where it comes from.
/// `address` is the node's Unix socket; empty: PHAROS_ADDRESS, else the only cluster of this user on this machine.
/// Returns the exit status.
int print_memory(const std::string& address);

}  // namespace pharos::console
