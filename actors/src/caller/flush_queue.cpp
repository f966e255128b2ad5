#include "caller/flush_queue.hpp"

#include <utility>

#include <pharos/base/check.hpp>

namespace pharos::actors {

FlushQueue::~FlushQueue() {
  PHAROS_CHECK(alarm_ == nullptr);
}

std::shared_ptr<FlushQueue> FlushQueue::make(Platform& platform, Duration delay_max) {
  std::shared_ptr<FlushQueue> queue{new FlushQueue{delay_max}};
  queue->alarm_ = platform.make_alarm([weak = std::weak_ptr{queue}] {
    if (const auto there = weak.lock()) there->ring();
  });
  return queue;
}

void FlushQueue::ring() {
  {
    const std::lock_guard lock{mutex_};
    armed_ = false;
  }
  flush_all();
}

void FlushQueue::add(std::weak_ptr<Flushable> dirty) {
  const std::lock_guard lock{mutex_};
  if (alarm_ == nullptr) return;
  dirty_.push_back(std::move(dirty));
  size_.store(dirty_.size(), std::memory_order_release);
  if (armed_) return;
  armed_ = true;
  alarm_->set(delay_max_);
}

void FlushQueue::flush_all() {
  if (size_.load(std::memory_order_acquire) == 0) return;
  std::vector<std::weak_ptr<Flushable>> dirty;
  {
    const std::lock_guard lock{mutex_};
    dirty.swap(dirty_);
    size_.store(0, std::memory_order_release);
  }
  for (const auto& entry : dirty) {
    if (const auto link = entry.lock()) link->flush();
  }
}

void FlushQueue::close() {
  const std::lock_guard lock{mutex_};
  alarm_.reset();
  dirty_.clear();
  size_.store(0);
}

}  // namespace pharos::actors
