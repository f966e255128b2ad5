#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

namespace pharos::ml {

/// What a launcher (torchrun, mpirun, srun) has said in this process's environment.
struct Launch {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  bool one_machine = true;
  std::string job{};       ///< the same for all ranks of one launch, and another for others on this machine
  std::string master{};    ///< where rank 0 is: a host; empty: nobody has said so
  std::uint16_t port = 0;  ///< there; 0: nobody has said so
};

/// `variable`: what the environment has of that name. Nothing: no launcher has started this process. kInvalidArgument:
/// what it says makes no sense.
Result<std::optional<Launch>> find_launch(const std::function<std::optional<std::string>(const char* name)>& variable);

}  // namespace pharos::ml
