#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <pharos/base/fd.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::process {

/// The zygote has ended: the process must exit with this status, which is 0 if the node is gone, and 1 if the Preamble
/// or the handshake failed, for which the node has 10 s each.
struct ZygoteEnded {
  int status = 0;
};
/// This process is a forked worker, which owns the socket and the page. All other descriptors of the zygote are closed,
/// that of the page too: the worker calls release() and never destroys the page. The Preamble on its control socket is
/// not read yet.
struct BecomeWorker {
  Fd control;
  CrashPage crash;
};
/// The facts about the program that a zygote needs.
struct ZygoteProgram {
  std::uint32_t functions = 0;                ///< size of the function table, which the node compares
  std::string (*readable)(const char* name);  ///< makes the name of a function readable
};

/// Runs this process as a zygote: the user's program, loaded once and stopped before main. It forks a worker for each
/// request of the node, and reports how each worker ended. At its start it checks that the program has one thread and
/// no open GPU, because a forked worker would inherit broken locks or a dead GPU context. If the check fails, it
/// executes the program anew for each worker, which is slow, and tells the node the reason. A crashed worker is
/// reported twice: at once, and when a child of the zygote has found the names of the functions on the stack. The
/// zygote can do that because it has the same files loaded as the worker. If a worker cannot be started, the node is
/// told that it was reaped, with a negative errno. Returns ZygoteEnded when the node is gone, and BecomeWorker in a
/// forked child. The zygote does not end its workers: each has a connection of its own to the node. Must run on the
/// process's only thread. `socket` is the inherited socket; its Preamble is not read yet.
std::variant<ZygoteEnded, BecomeWorker> run_zygote(Fd socket, const ZygoteProgram& program);

}  // namespace pharos::process
