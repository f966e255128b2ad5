#pragma once

#include <sys/types.h>

#include <atomic>
#include <vector>

#include <pharos/actors/ref.hpp>

namespace pharos::detail {
class ResultCell;
}

namespace pharos::actors {

class RunningCall;

/// Notes what this thread waits for, for whoever asks meanwhile. Lives on the stack of the one that waits; cheap.
class WaitingThread {
 public:
  explicit WaitingThread(detail::ResultCell& cell);
  WaitingThread(WaitingThread&&) = delete;
  ~WaitingThread();

  struct Wait {
    detail::CellHandle cell;
    pid_t thread = 0;
    const char* inside = nullptr;  ///< mangled name of the call that waits; null: the thread runs none
  };
  /// Of every thread of this process. Any thread; not in a signal handler.
  static std::vector<Wait> all();

 private:
  struct Place;
  static Place& place_of_this_thread();

  Place& place_;
  const RunningCall* const outer_running_;
  detail::ResultCell* const outer_;
};

}  // namespace pharos::actors
