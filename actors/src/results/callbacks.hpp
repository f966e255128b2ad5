#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/async/executor.hpp>

#include "program/platform.hpp"

namespace pharos::actors {

/// Runs the callbacks that users give to `then()` and the like, on threads of their own: one callback at a time, in the
/// order in which they came. A callback that waits for a result gives up its turn, and those behind it go on in another
/// thread, since they may bring that result.
/// Owned by the WaitingRoom of a Runtime. Any thread. A callback must not throw: an exception ends the process. Bounds:
/// none of its own; there is one thread for each callback that waits. End: the destructor waits until all callbacks
/// have run, without a limit. None of these threads may call it: the process would abort. The platform must outlive
/// this.
class Callbacks {
 public:
  explicit Callbacks(Platform& platform) : platform_{platform} {}
  Callbacks(Callbacks&&) = delete;
  ~Callbacks();

  void post(async::Callback then);
  /// To be called by a thread that is about to wait. If it runs a callback, the next callback may run. Does nothing in
  /// other threads.
  static void give_up_turn();

 private:
  void start();
  void run(async::Executor* thread);

  Platform& platform_;
  std::mutex mutex_;
  std::deque<async::Callback> waiting_;
  bool turn_taken_ = false;
  bool ends_ = false;
  std::vector<std::unique_ptr<async::Executor>> threads_;
  std::vector<async::Executor*> idle_;  // those of threads_ that run nothing
};

}  // namespace pharos::actors
