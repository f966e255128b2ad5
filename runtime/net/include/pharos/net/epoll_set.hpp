#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/mutex.hpp>

namespace pharos::net {

/// The callback of a descriptor. The epoll set keeps it alive while the descriptor is registered, and whoever has found
/// it keeps it alive while on_ready() runs. So on_ready() may be called once more just after the descriptor was
/// removed.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Called on a thread that polls. `events` has EPOLL* bits. Several threads may be inside it at once, each for
  /// another event. Must not throw.
  virtual void on_ready(std::uint32_t events) = 0;
};

/// An epoll set, and the watchers of the descriptors that are registered in it. An event names its registration by a
/// token. No token is used twice, so an event of a descriptor that was removed meanwhile finds no watcher, even if the
/// number of the descriptor is in use again.
/// Owned by Reactor. Any thread may call, except abandon_after_fork(). A failed system call aborts the process, for
/// example when a descriptor is registered twice; only unwatch() and abandon_after_fork() ignore failures. The owner of
/// a descriptor calls unwatch() before closing it. The destructor lets go of the watchers, and closes no registered
/// descriptor.
class EpollSet {
 public:
  /// Tokens below this number are left to the owner, for descriptors without a watcher.
  static constexpr std::uint64_t kFirstToken = 16;

  EpollSet();

  /// The descriptor of the set, to wait on.
  int fd() const { return epoll_.get(); }

  /// Registers a descriptor of the owner. `events` has EPOLL* bits, and `token` is below kFirstToken.
  void add(int fd, std::uint32_t events, std::uint64_t token);
  /// Registers a descriptor, edge-triggered. `events` is EPOLLIN, EPOLLOUT or both; the end of the stream and errors
  /// are always reported too.
  void watch(int fd, std::uint32_t events, std::shared_ptr<Watcher> watcher);
  /// This function and unwatch() do nothing if the descriptor is not registered.
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);
  /// Returns the watcher whose registration has this token. nullptr if it was removed.
  std::shared_ptr<Watcher> find(std::uint64_t token);

  /// For the only thread of a child process after a fork: closes the child's copies of the set and of all descriptors
  /// that are watched. The numbers of the latter lead to nobody then, and stay taken until their owners close them.
  /// Afterwards only unwatch() and the destructor may be called.
  void abandon_after_fork();

 private:
  struct Slot {
    std::uint32_t generation = 0;
    int fd = -1;
    std::shared_ptr<Watcher> watcher;
  };

  std::optional<std::uint32_t> slot_of(int fd) const;
  void control(int operation, std::uint32_t slot, std::uint32_t events);

  Fd epoll_;
  Mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> slot_of_fd_;
};

}  // namespace pharos::net
