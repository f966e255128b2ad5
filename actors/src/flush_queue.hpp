#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/base/clock.hpp>

#include "platform.hpp"

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
  /// Only the first of a batch sets the alarm.
  static std::shared_ptr<FlushQueue> make(Platform& platform, Duration delay_max);
  ~FlushQueue();

  /// Flushed within delay_max. Not again until then.
  void add(std::weak_ptr<Flushable> dirty);
  void flush_all();
  /// Nothing is flushed after this. What is queued is dropped.
  void close();

 private:
  explicit FlushQueue(Duration delay_max) : delay_max_{delay_max} {}
  void ring();

  const Duration delay_max_;
  std::atomic<std::size_t> size_ = 0;
  std::mutex mutex_;
  std::unique_ptr<Platform::Alarm> alarm_;  // null once closed
  bool armed_ = false;
  std::vector<std::weak_ptr<Flushable>> dirty_;
};

}  // namespace pharos::actors
