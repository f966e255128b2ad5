#include "flush_queue.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#include <pharos/base/check.hpp>

namespace pharos::actors {

class FlushQueue::Timer final : public net::Reactor::Watcher {
 public:
  explicit Timer(std::weak_ptr<FlushQueue> queue) : queue_{std::move(queue)} {}
  void on_ready(std::uint32_t) override {
    const auto queue = queue_.lock();
    if (queue == nullptr) return;
    std::uint64_t ignored = 0;
    if (::read(queue->timer_.get(), &ignored, sizeof ignored) < 0) return;  // another thread was first
    {
      const std::lock_guard lock{queue->mutex_};
      queue->armed_ = false;
    }
    queue->flush_all();
  }

 private:
  std::weak_ptr<FlushQueue> queue_;
};

FlushQueue::FlushQueue(net::Reactor& reactor, Duration delay_max)
    : reactor_{reactor}, delay_max_{delay_max}, timer_{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)} {
  PHAROS_CHECK(timer_, errno);
}

FlushQueue::~FlushQueue() {
  PHAROS_CHECK(closed_);
}

std::shared_ptr<FlushQueue> FlushQueue::make(net::Reactor& reactor, Duration delay_max) {
  std::shared_ptr<FlushQueue> queue{new FlushQueue{reactor, delay_max}};
  reactor.watch(queue->timer_.get(), EPOLLIN, std::make_shared<Timer>(queue));
  return queue;
}

void FlushQueue::add(std::weak_ptr<Flushable> dirty) {
  const std::lock_guard lock{mutex_};
  if (closed_) return;
  dirty_.push_back(std::move(dirty));
  size_.store(dirty_.size(), std::memory_order_release);
  if (armed_) return;
  armed_ = true;
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = static_cast<long>(delay_max_.count())}};
  PHAROS_CHECK(::timerfd_settime(timer_.get(), 0, &once, nullptr) == 0, errno);
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
  {
    const std::lock_guard lock{mutex_};
    if (closed_) return;
    closed_ = true;
    dirty_.clear();
    size_.store(0);
  }
  reactor_.unwatch(timer_.get());
}

}  // namespace pharos::actors
