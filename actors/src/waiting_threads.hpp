#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include <pharos/actors/ref.hpp>

namespace pharos::actors {

class RunningCall;

/// The threads that wait for results of one caller, and what for, for whoever asks meanwhile. Any thread.
class WaitingThreads {
 public:
  /// This thread waits for that cell as long as this lives, on its stack.
  class Note {
   public:
    Note(WaitingThreads& threads, detail::ResultCell& cell);
    Note(Note&&) = delete;
    ~Note();

   private:
    friend class WaitingThreads;
    WaitingThreads& threads_;
    detail::ResultCell& cell_;
    const pid_t thread_;
    const RunningCall* const running_;
    Note* before_ = nullptr;
    Note* after_ = nullptr;
  };

  struct Wait {
    detail::CellHandle cell;
    pid_t thread = 0;
    const char* inside = nullptr;  ///< mangled name of the call that waits; null: the thread runs none
  };
  std::vector<Wait> all();

 private:
  std::mutex mutex_;
  Note* newest_ = nullptr;
};

}  // namespace pharos::actors
