#include "program/reactor_platform.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include <pharos/async/thread_executor.hpp>
#include <pharos/base/check.hpp>
#include <pharos/net/socket_link.hpp>

namespace pharos::actors {
namespace {

timespec to_timespec(Duration duration) {
  return {.tv_sec = static_cast<time_t>(duration.count() / 1'000'000'000),
          .tv_nsec = static_cast<long>(duration.count() % 1'000'000'000)};
}

/// An alarm over a timerfd, so that setting it costs one system call.
class TimerAlarm final : public Platform::Alarm {
 public:
  TimerAlarm(net::Reactor& reactor, async::Callback ring)
      : reactor_{reactor}, bell_{std::make_shared<Bell>(std::move(ring))} {
    reactor_.watch(bell_->timer.get(), EPOLLIN, bell_);
  }
  ~TimerAlarm() override { reactor_.unwatch(bell_->timer.get()); }

  void set(Duration from_now) override {
    const itimerspec once{.it_interval = {}, .it_value = to_timespec(from_now)};
    PHAROS_CHECK(::timerfd_settime(bell_->timer.get(), 0, &once, nullptr) == 0, errno);
  }

 private:
  struct Bell final : net::Reactor::Watcher {
    explicit Bell(async::Callback callback)
        : timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)}, ring{std::move(callback)} {
      PHAROS_CHECK(timer, errno);
    }
    void on_ready(std::uint32_t) override {
      std::uint64_t ignored = 0;
      if (::read(timer.get(), &ignored, sizeof ignored) < 0) return;  // another thread was first
      ring();
    }
    const Fd timer;
    async::Callback ring;
  };

  net::Reactor& reactor_;
  const std::shared_ptr<Bell> bell_;
};

class EventBell final : public Platform::Bell {
 public:
  EventBell(net::Reactor& reactor, async::Callback ring)
      : reactor_{reactor}, bell_{std::make_shared<Bell>(std::move(ring))} {
    reactor_.watch(bell_->event.get(), EPOLLIN, bell_);
  }
  ~EventBell() override { reactor_.unwatch(bell_->event.get()); }

  void ring() override {
    const std::uint64_t one = 1;
    PHAROS_CHECK(::write(bell_->event.get(), &one, sizeof one) == sizeof one, errno);
  }

 private:
  // The eventfd is edge-triggered and never read, so that each write is an event.
  struct Bell final : net::Reactor::Watcher {
    explicit Bell(async::Callback callback)
        : event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, ring{std::move(callback)} {
      PHAROS_CHECK(event, errno);
    }
    void on_ready(std::uint32_t) override { ring(); }
    const Fd event;
    async::Callback ring;
  };

  net::Reactor& reactor_;
  const std::shared_ptr<Bell> bell_;
};

class FutexSleepers final : public Sleepers {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void sleep(std::atomic<std::uint32_t>& word, std::uint32_t value, async::Deadline deadline) override {
    const timespec left = deadline.is_never() ? timespec{} : to_timespec(deadline.left(now()));
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, deadline.is_never() ? nullptr : &left, nullptr, 0);
  }
  void wake(std::atomic<std::uint32_t>& word) override {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
};

}  // namespace

std::shared_ptr<net::Link> ReactorPlatform::make_call_link(Fd socket) {
  return net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kRefused);
}

std::unique_ptr<Platform::Alarm> ReactorPlatform::make_alarm(async::Callback ring) {
  return std::make_unique<TimerAlarm>(reactor_, std::move(ring));
}

std::unique_ptr<async::Executor> ReactorPlatform::make_thread(const char* name) {
  return std::make_unique<async::ThreadExecutor>(name);
}

std::unique_ptr<Platform::Bell> ReactorPlatform::make_bell(async::Callback ring) {
  return std::make_unique<EventBell>(reactor_, std::move(ring));
}

std::shared_ptr<Sleepers> ReactorPlatform::sleepers() {
  return std::make_shared<FutexSleepers>();
}
void ReactorPlatform::yield() {
  ::sched_yield();
}

}  // namespace pharos::actors
