#pragma once

#include <cstdint>

#include <pharos/base/error.hpp>

namespace pharos::actors {

/// Writes to the log that a one-way call of this function (its index) failed, since nobody waits for its result. Writes
/// at most one line in a second; a line says how many failures before it were not written. The end of the program's
/// Runtime is no failure. Any thread.
void log_failed_send(std::uint32_t function, const Error& why);

}  // namespace pharos::actors
