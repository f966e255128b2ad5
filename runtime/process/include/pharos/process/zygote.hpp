#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <pharos/base/fd.hpp>

namespace pharos::process {

/// The zygote has ended: exit with this.
struct ZygoteEnded {
  int status = 0;
};
/// This is a worker now, the control socket's Preamble not yet read.
struct BecomeWorker {
  Fd control;
};

/// The program, loaded once and waiting before main: forks a worker for each request of the node, and says how each
/// ended. Before a fork it checks that it has one thread and no GPU open, since a fork would inherit broken locks or a
/// dead GPU context; otherwise it executes the program anew for each worker, which is slow, and the node is told why.
/// Returns when the node is gone, or, in the forked child, to become a worker there.
/// One thread. `socket` is what was inherited, its Preamble not yet read. `functions` is the size of the program's
/// table, for the node to compare.
std::variant<ZygoteEnded, BecomeWorker> run_zygote(Fd socket, std::uint32_t functions);

}  // namespace pharos::process
