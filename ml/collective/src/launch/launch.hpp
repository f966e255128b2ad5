#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// The data that a launcher (torchrun, mpirun, srun) has put into this process's environment. A value.
struct Launch {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  bool one_machine = true;
  std::string job{};       ///< The same text for all ranks of a launch, and different from that of other launches.
  std::string master{};    ///< The host of rank 0; empty if unknown.
  std::uint16_t port = 0;  ///< The port of rank 0; 0 if unknown.
};

/// Reads the launcher's variables. `variable` returns the value of a variable in the environment. Returns nullopt if no
/// launcher has started this process, and kInvalidArgument if the variables are wrong: one is missing or is no number,
/// or the rank is not below the number of ranks, which is at most 64. Called by Communicator::from_environment().
Result<std::optional<Launch>> find_launch(const std::function<std::optional<std::string>(const char* name)>& variable);

}  // namespace pharos::ml
