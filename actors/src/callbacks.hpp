#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/async/executor.hpp>

#include "platform.hpp"

namespace pharos::actors {

/// The callbacks of one Runtime's users, `then()` and the like: one at a time, in the order in which they came. One
/// that waits for a result gives up its turn, and those behind it go on with another thread: they may be what it waits
/// for. Any thread. Bounds: none of its own; a thread for each callback that waits. End: all have run.
class Callbacks {
 public:
  explicit Callbacks(Platform& platform) : platform_{platform} {}
  Callbacks(Callbacks&&) = delete;
  ~Callbacks();

  void post(async::Callback then);
  /// On a thread that runs one: it is about to wait.
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
  std::vector<async::Executor*> idle_;  // of these
};

}  // namespace pharos::actors
