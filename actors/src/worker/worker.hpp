#pragma once

#include <pharos/base/fd.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::actors {

/// Runs this process as a worker, and does not return. Makes the handshake with the node over the inherited socket
/// `control`, serves the callers whose sockets the node hands over, and ends when the node says so or is gone. The
/// process then ends with _exit(0), without static destructors. If the preamble or the handshake fails, or takes more
/// than 30 s, it ends with _exit(1). role.cpp calls this on the main thread, which then reads and runs calls with one
/// more thread. If the process crashes, its signal handler writes the place to `crash`.
[[noreturn]] void run_worker(Fd control, process::CrashPage crash);

}  // namespace pharos::actors
