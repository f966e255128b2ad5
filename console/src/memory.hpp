#pragma once

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// `pharos memory`: prints what lies in a node's object store, who keeps it there, and where it comes from.
Result<void> print_memory(const Place& place);

}  // namespace pharos::console
