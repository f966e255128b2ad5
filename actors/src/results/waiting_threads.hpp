#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/base/mutex.hpp>

namespace pharos::actors {

/// The list of threads and coroutines that wait for results of one caller, from which reports are made. Owned by a
/// WaitingRoom. Any thread.
class WaitingThreads {
 public:
  enum class Who : std::uint8_t { kThread, kCoroutine };
  /// While it lives, on a thread's stack or in a coroutine's frame, the thread or coroutine that made it is listed as
  /// waiting for the cell. The list and the cell must outlive it. A coroutine's Note may be destroyed on another
  /// thread.
  class Note {
   public:
    Note(WaitingThreads& threads, detail::ResultCell& cell, Who who = Who::kThread);
    Note(Note&&) = delete;
    ~Note();

   private:
    friend class WaitingThreads;
    WaitingThreads& threads_;
    detail::ResultCell& cell_;
    const pid_t thread_;
    const char* const inside_;
    Note* before_ = nullptr;
    Note* after_ = nullptr;
  };

  struct Wait {
    detail::CellHandle cell;
    pid_t thread = 0;              ///< the kernel's id of the thread; 0 for a coroutine
    const char* inside = nullptr;  ///< mangled name of the function whose call waits; null outside of calls
  };
  /// Returns all waits, the newest first.
  std::vector<Wait> all();

 private:
  Mutex mutex_;
  Note* newest_ = nullptr;
};

}  // namespace pharos::actors
