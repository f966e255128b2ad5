#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/reactor.hpp>

namespace pharos::actors {

/// Something with bytes that are queued and not written.
class Flushable {
 public:
  virtual ~Flushable() = default;
  virtual void flush() = 0;
};

/// What waits to be written, so that many frames go in one write: flushed by whoever is about to wait, by the arrival
/// of a reply, and at the latest by a timer, whatever the threads that queued it are doing then. Owned by a driver or
/// worker. Any thread.
class FlushQueue : public std::enable_shared_from_this<FlushQueue> {
 public:
  /// The timer is a descriptor of the reactor's: setting it is one system call, and only the first of a batch does.
  static std::shared_ptr<FlushQueue> make(net::Reactor& reactor, Duration delay_max);
  ~FlushQueue();

  /// Flushed within delay_max. Not again until then.
  void add(std::weak_ptr<Flushable> dirty);
  void flush_all();
  /// No timer fires after this. What is queued is dropped.
  void close();

 private:
  class Timer;
  FlushQueue(net::Reactor& reactor, Duration delay_max);

  net::Reactor& reactor_;
  const Duration delay_max_;
  Fd timer_;
  std::atomic<std::size_t> size_ = 0;
  std::mutex mutex_;
  bool armed_ = false;
  bool closed_ = false;
  std::vector<std::weak_ptr<Flushable>> dirty_;
};

}  // namespace pharos::actors
