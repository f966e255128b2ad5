#pragma once

#include <string>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

struct StackOptions {
  /// Id of an actor, a worker, a program or a node, or an actor's name. Empty: all processes.
  std::string id{};
  std::string format = "text";  ///< or "json"
};

/// Implements `pharos stack`: prints what processes run, where their threads are, and what each get() waits for.
Result<void> print_stacks(const Place& place, const StackOptions& options);

}  // namespace pharos::console
