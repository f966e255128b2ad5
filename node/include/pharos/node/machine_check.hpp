#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pharos::node {

/// What a look at one property of this machine has found. A value.
struct MachineCheck {
  std::string what{};    ///< "open files"
  std::string found{};   ///< "a process may have 1048576"
  std::string remedy{};  ///< what to do; empty if all is well
};

/// Looks at what a node needs of this machine: the folder for run folders, shared memory, memory, the numbers of open
/// files and processes that are allowed, the clock, and the GPUs. Does not fail: what is wrong has a remedy. Blocks,
/// mostly for a few milliseconds, and as long as NVIDIA's driver takes. Any thread.
std::vector<MachineCheck> check_machine();
/// Looks whether a head can listen at this port of 127.0.0.1. The same otherwise.
MachineCheck check_port(std::uint16_t port);

}  // namespace pharos::node
