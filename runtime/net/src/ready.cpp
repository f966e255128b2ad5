#include "ready.hpp"

#include <memory>

#include <pharos/async/completion.hpp>

namespace pharos::net {
namespace {

// Completes the first time that the descriptor is ready.
struct ReadyOnce : Reactor::Watcher {
  async::Completion<void> ready;
  void on_ready(std::uint32_t) override { ready.complete(); }
};

}  // namespace

// Watched anew for each wait: an edge that came before is reported again.
async::Async<Result<void>> wait_until_ready(Reactor* reactor, int fd, std::uint32_t events, async::Deadline deadline) {
  auto watcher = std::make_shared<ReadyOnce>();
  reactor->watch(fd, events, watcher);
  auto waited = co_await watcher->ready.wait(deadline);
  reactor->unwatch(fd);
  co_return waited;
}

}  // namespace pharos::net
