#pragma once

#include <string>

#include <pharos/base/result.hpp>

namespace pharos::console {

/// `pharos memory`: prints what lies in a node's object store, who keeps it there, and where it comes from.
/// `address` is the node's Unix socket; empty: the only cluster of this user on this machine.
Result<void> print_memory(const std::string& address);

}  // namespace pharos::console
