#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

namespace pharos::simulated {

/// Runs a kernel on the calling thread. The blocks run one after another. The threads of a block take turns: each runs
/// until it ends or waits for the others. The first thread begins, or the last one: a kernel that lacks a wait reads in
/// one of the two orders what is not yet written.
enum class Turns : bool { kFirstBegins, kLastBegins };
void run_blocks(dim3 blocks, dim3 threads, Turns turns, const std::function<void()>& kernel);

/// Called by a thread of a block: waits for all the others, and returns whether all of them have passed true.
bool wait_for_block(bool value);

}  // namespace pharos::simulated
