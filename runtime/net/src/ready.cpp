#include "ready.hpp"

#include <memory>

#include <pharos/async/completion.hpp>

namespace pharos::net {
namespace {

struct ReadyOnce : Reactor::Watcher {
  async::Completion<void> ready;
  void on_ready(std::uint32_t) override { ready.complete(); }
};

}  // namespace

// The descriptor is registered anew for each wait, because epoll then reports a readiness that is there already.
async::Async<Result<void>> wait_until_ready(Reactor* reactor, int fd, std::uint32_t events, async::Deadline deadline) {
  auto watcher = std::make_shared<ReadyOnce>();
  reactor->watch(fd, events, watcher);
  auto waited = co_await watcher->ready.wait(deadline);
  reactor->unwatch(fd);
  co_return waited;
}

}  // namespace pharos::net
