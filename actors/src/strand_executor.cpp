#include "strand_executor.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <pharos/base/check.hpp>

namespace pharos::actors {

class StrandExecutor::Posted final : public Strand::Runner {
 public:
  explicit Posted(async::Callback work) : work_{std::move(work)} {}

  void run(net::FrameBatch, bool) override { std::exchange(work_, {})(); }
  void give_back(net::FrameBatch) override {}
  void on_drained() override {}

 private:
  async::Callback work_;
};

class StrandExecutor::Waker final : public net::Reactor::Watcher {
 public:
  explicit Waker(Strand& strand) : strand_{strand} {}
  void on_ready(std::uint32_t) override { strand_.run(); }

 private:
  Strand& strand_;
};

// Edge-triggered, and never read: each write is an event.
StrandExecutor::StrandExecutor(net::Reactor& reactor, Strand& strand)
    : reactor_{reactor}, strand_{strand}, wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  PHAROS_CHECK(wake_, errno);
  reactor_.watch(wake_.get(), EPOLLIN, std::make_shared<Waker>(strand));
}

StrandExecutor::~StrandExecutor() {
  reactor_.unwatch(wake_.get());
}

void StrandExecutor::post(async::Callback work) {
  push(std::make_shared<Posted>(std::move(work)));
}

void StrandExecutor::push(std::shared_ptr<Strand::Runner> runner) {
  if (strand_.push(std::move(runner), {})) return;
  const std::uint64_t one = 1;
  PHAROS_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one, errno);
}

async::TimerId StrandExecutor::run_at(TimePoint when, async::Callback work) {
  return reactor_.run_at(when, [this, work = std::move(work)]() mutable { post(std::move(work)); });
}

}  // namespace pharos::actors
