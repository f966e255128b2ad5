#pragma once

#include <atomic>

namespace pharos::simulated {

/// How many communicators this process has made with the stand-in for NCCL. Any thread.
std::atomic<int>& nccl_communicators();

}  // namespace pharos::simulated
