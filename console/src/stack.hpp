#pragma once

#include <string>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

struct StackOptions {
  std::string id{};             ///< of an actor, a worker, a program or a node; an actor's name. Empty: all
  std::string format = "text";  ///< or "json"
};

/// `pharos stack`: what processes do, where their threads are, and what each get() waits for.
Result<void> print_stacks(const Place& place, const StackOptions& options);

}  // namespace pharos::console
