#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <pharos/base/fd.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::process {

/// The zygote has ended: exit with this.
struct ZygoteEnded {
  int status = 0;
};
/// This is a worker now, the control socket's Preamble not yet read.
struct BecomeWorker {
  Fd control;
  CrashPage crash;
};
/// What a zygote has to know about the program.
struct ZygoteProgram {
  std::uint32_t functions = 0;                ///< the size of its table, for the node to compare
  std::string (*readable)(const char* name);  ///< a function's name for people
};

/// The program, loaded once and waiting before main: forks a worker for each request of the node, and says how each
/// ended. Before a fork it checks that it has one thread and no GPU open, since a fork would inherit broken locks or a
/// dead GPU context; otherwise it executes the program anew for each worker, which is slow, and the node is told why.
/// A worker that crashed is reported once more, when a child has found out where: the zygote has loaded what the worker
/// had.
/// Returns when the node is gone, or, in the forked child, to become a worker there.
/// One thread. `socket` is what was inherited, its Preamble not yet read.
std::variant<ZygoteEnded, BecomeWorker> run_zygote(Fd socket, const ZygoteProgram& program);

}  // namespace pharos::process
