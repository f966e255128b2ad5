#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include <pharos/actors/ref.hpp>

namespace pharos::actors {

/// The threads and coroutines that wait for results of one caller, and what for, for whoever asks meanwhile. Any
/// thread.
class WaitingThreads {
 public:
  enum class Who : std::uint8_t { kThread, kCoroutine };
  /// This thread, or a coroutine that runs on it, waits for that cell as long as this lives, on its stack or in its
  /// frame.
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
    pid_t thread = 0;              ///< 0: a coroutine
    const char* inside = nullptr;  ///< mangled name of the call that waits; null: the thread runs none
  };
  std::vector<Wait> all();

 private:
  std::mutex mutex_;
  Note* newest_ = nullptr;
};

}  // namespace pharos::actors
