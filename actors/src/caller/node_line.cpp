#include "caller/node_line.hpp"

#include <chrono>
#include <utility>

#include <pharos/async/block_on.hpp>
#include <pharos/base/check.hpp>

namespace pharos::actors {
namespace {

constexpr auto kJoinTime = std::chrono::seconds{10};

}  // namespace

void NodeLine::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = std::move(node);
  registered_ = registered;
}

void NodeLine::tell(wire::Message message) {
  executor_.post([weak = weak_from_this(), message = std::move(message)] {
    const auto self = weak.lock();
    if (self != nullptr && !self->over()) self->node_->send(message);
  });
}

void NodeLine::finish_telling() {
  // tell() posts its work to the executor, which runs work in order.
  async::block_on(executor_, []() -> async::Async<void> { co_return; }());
}

void NodeLine::hang_up(const Error& why) {
  const std::lock_guard lock{mutex_};
  if (!over_) over_ = why;
}

std::optional<Error> NodeLine::over() const {
  const std::lock_guard lock{mutex_};
  return over_;
}

void NodeLine::end() {
  background_.cancel();
  const auto joined = background_.join_blocking(async::Deadline::after(kJoinTime, executor_.now()));
  PHAROS_CHECK(joined.ok(), joined.error());
}

}  // namespace pharos::actors
