#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <pharos/base/clock.hpp>

#include "program/platform.hpp"

namespace pharos::actors {

/// An object with queued bytes that are to be written, such as the calls of a link. flush() may come on any thread. A
/// FlushQueue has only a weak reference to it.
class Flushable {
 public:
  virtual ~Flushable() = default;
  virtual void flush() = 0;
};

/// The links whose queued frames wait to be written, so that many frames go in one write. A thread that is about to
/// wait flushes all of them, and the arrival of a reply flushes its link. An alarm flushes the rest after a short
/// delay, even if the threads that queued the frames are busy.
/// Shared by a Caller and its links; in a worker also by the Workplace. Any thread. close() must be called before the
/// queue is destroyed: otherwise the destructor aborts the process. `platform` must live until close().
class FlushQueue : public std::enable_shared_from_this<FlushQueue> {
 public:
  /// Makes a queue that flushes each link at most `delay_max` after its add(). To save system calls, an add() does not
  /// set the alarm again before it has rung.
  static std::shared_ptr<FlushQueue> make(Platform& platform, Duration delay_max);
  ~FlushQueue();

  /// Flushes `dirty` once, within delay_max. A caller that queues more bytes before that need not add it again. Does
  /// nothing after close().
  void add(std::weak_ptr<Flushable> dirty);
  void flush_all();
  /// No flush begins after this call. Links that wait in the queue are dropped without a flush.
  void close();

 private:
  explicit FlushQueue(Duration delay_max) : delay_max_{delay_max} {}
  void ring();

  const Duration delay_max_;
  std::atomic<std::size_t> size_ = 0;  // of dirty_; written under the mutex. Who reads 0 need not take the mutex
  std::mutex mutex_;
  std::unique_ptr<Platform::Alarm> alarm_;  // null once closed
  bool armed_ = false;
  std::vector<std::weak_ptr<Flushable>> dirty_;
};

}  // namespace pharos::actors
