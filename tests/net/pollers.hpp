#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::net {

/// A deadline so far away that reaching it means a failed test.
async::Deadline soon();

/// Threads that poll a reactor in the background. The destructor stops and joins them.
class Pollers {
 public:
  Pollers(Reactor& reactor, int count);
  Pollers(Pollers&&) = delete;
  ~Pollers();

  std::thread::id id(std::size_t index) const { return threads_[index].get_id(); }
  /// Id of the thread in /proc; 0 until the thread has started.
  pid_t number(std::size_t index) const { return numbers_[index].load(); }

 private:
  void poll(std::size_t index);

  Reactor& reactor_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> polling_;
  std::vector<std::atomic<pid_t>> numbers_;
  std::vector<std::thread> threads_;
};

/// Returns whether that thread of this process sleeps in a system call.
bool sleeps(pid_t thread);

/// A value that several threads change, and whose changes a test waits for.
template <class T>
class Watched {
 public:
  template <class Change>
  void change(Change&& change) {
    const std::lock_guard lock{mutex_};
    change(value_);
    changed_.notify_all();
  }
  /// Waits until `holds` returns true. Returns false if it does not within 30 s.
  template <class Holds>
  bool wait(Holds&& holds) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return holds(value_); });
  }
  T value() {
    const std::lock_guard lock{mutex_};
    return value_;
  }
  /// Calls `look` with the value under the lock: for values that cannot be copied.
  template <class Look>
  void look(Look&& look) {
    const std::lock_guard lock{mutex_};
    look(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
};

}  // namespace pharos::net
