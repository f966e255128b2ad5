#pragma once

#include <functional>
#include <string>
#include <vector>

#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// Returns a text for people that says what each of these results waits for, what that waits for in turn, and so on
/// down to a cause: code that runs, a resource that others hold, or a process that does not answer. A circle of waits
/// is named as one. `node` is the node's answer; null if it did not answer. `name_of` gives the name of a function.
/// Pure: any thread may call it, nothing is kept, and it always returns a text. PendingResults calls it.
std::string explain_waits(const std::vector<wire::PendingResult>& waits, CallerId caller, const wire::Inspected* node,
                          const std::function<std::string(std::uint32_t function)>& name_of);

}  // namespace pharos::actors
