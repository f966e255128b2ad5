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

/// Far away: reaching it is a failure.
async::Deadline soon();

/// Threads that poll a reactor in the background, until the object goes.
class Pollers {
 public:
  Pollers(Reactor& reactor, int count);
  Pollers(Pollers&&) = delete;
  ~Pollers();

  std::thread::id id(std::size_t index) const { return threads_[index].get_id(); }
  /// Number of the thread, for /proc.
  pid_t number(std::size_t index) const { return numbers_[index].load(); }

 private:
  void poll(std::size_t index);

  Reactor& reactor_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> polling_;
  std::vector<std::atomic<pid_t>> numbers_;
  std::vector<std::thread> threads_;
};

/// True once that thread of this process sleeps in a system call.
bool sleeps(pid_t thread);

/// What several threads change and a test waits for.
template <class T>
class Watched {
 public:
  template <class Change>
  void change(Change&& change) {
    const std::lock_guard lock{mutex_};
    change(value_);
    changed_.notify_all();
  }
  /// False if `holds` did not come true in time.
  template <class Holds>
  bool wait(Holds&& holds) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return holds(value_); });
  }
  T value() {
    const std::lock_guard lock{mutex_};
    return value_;
  }
  /// For what cannot be copied, and a test that no thread disturbs.
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
