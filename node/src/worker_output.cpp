#include "worker_output.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace pharos::node {
namespace {

constexpr auto kRetryTime = std::chrono::milliseconds{10};

}  // namespace

WorkerOutput::WorkerOutput(net::Reactor& reactor, Fd pipe, Ready may_send, Sink sink)
    : reactor_{reactor}, pipe_{std::move(pipe)}, may_send_{std::move(may_send)}, sink_{std::move(sink)} {}

std::shared_ptr<WorkerOutput> WorkerOutput::make(net::Reactor& reactor, Fd pipe, Ready may_send, Sink sink) {
  std::shared_ptr<WorkerOutput> output{
      new WorkerOutput{reactor, std::move(pipe), std::move(may_send), std::move(sink)}};
  reactor.watch(output->pipe_.get(), EPOLLIN, output);
  return output;
}

WorkerOutput::~WorkerOutput() = default;

void WorkerOutput::on_ready(std::uint32_t) {
  read_all(false);
}

void WorkerOutput::drain() {
  read_all(true);
  hand_over(true);
  if (pipe_) reactor_.unwatch(pipe_.get());
  pipe_.reset();
}

void WorkerOutput::read_all(bool even_if_slow) {
  char buffer[16 << 10];
  while (pipe_) {
    if (!even_if_slow && !may_send_()) return try_again_later();
    const ssize_t n = ::read(pipe_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text_.append(buffer, static_cast<std::size_t>(n));
    hand_over(text_.size() >= kLineMax);
    // A grandchild may hold the other end and write for ever.
    if (even_if_slow && n < static_cast<ssize_t>(sizeof buffer)) return;
  }
}

void WorkerOutput::try_again_later() {
  reactor_.run_at(reactor_.now() + kRetryTime, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->read_all(false);
  });
}

void WorkerOutput::hand_over(bool all) {
  const std::size_t end = all ? text_.size() : text_.rfind('\n') + 1;  // npos + 1 is 0
  if (end == 0) return;
  sink_(text_.substr(0, end));
  text_.erase(0, end);
}

}  // namespace pharos::node
