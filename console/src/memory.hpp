#pragma once

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// Implements `pharos memory`: prints which objects are in a node's object store, which processes keep them there, and
/// where they come from.
Result<void> print_memory(const Place& place);

}  // namespace pharos::console
