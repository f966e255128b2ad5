#pragma once

#include <functional>
#include <string>
#include <vector>

#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// Says for people what each of these results waits for, and what that waits for in turn, down to what nobody else can
/// do anything about: code that runs, a resource that others have, a process that does not answer. A circle is named as
/// one. `node`: what the node answered, null if it did not. Pure.
std::string explain_waits(const std::vector<wire::PendingResult>& waits, CallerId caller, const wire::Inspected* node,
                          const std::function<std::string(std::uint32_t function)>& name_of);

}  // namespace pharos::actors
