#pragma once

#include <pharos/base/fd.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::actors {

/// The life of a worker process: proves itself to its node over the inherited socket, serves the callers that the node
/// hands over, and ends when the node says so or is gone. When it crashes, `crash` says where. Does not return.
[[noreturn]] void run_worker(Fd control, process::CrashPage crash);

}  // namespace pharos::actors
