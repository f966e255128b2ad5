#pragma once

#include <signal.h>

#include <chrono>
#include <thread>

namespace pharos::cluster {

/// Takes so long.
inline int stay(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return ms;
}
/// Kills the process that runs it.
inline int end_worker() {
  ::raise(SIGKILL);
  return 0;
}

}  // namespace pharos::cluster
