#include "logs/worker_output.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace pharos::node {
namespace {

constexpr auto kRetryTime = std::chrono::milliseconds{10};
constexpr std::size_t kReadMax = 16 << 10;

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
  read_what_may_be_sent();
}

// A process that the worker has started may hold the other end and write for ever. So no more is read than the pipe can
// hold.
void WorkerOutput::drain() {
  const int held = pipe_ ? ::fcntl(pipe_.get(), F_GETPIPE_SZ) : 0;
  for (int read = 0; read < held && read_some(); read += static_cast<int>(kReadMax)) {
  }
  hand_over(true);
  if (pipe_) reactor_.unwatch(pipe_.get());
  pipe_.reset();
}

// However often the worker writes while nothing may be sent, a single timer is set.
void WorkerOutput::read_what_may_be_sent() {
  while (pipe_ && may_send_()) {
    if (!read_some()) return;
  }
  if (!pipe_ || std::exchange(tries_again_, true)) return;
  reactor_.run_at(reactor_.now() + kRetryTime, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->tries_again_ = false;
    self->read_what_may_be_sent();
  });
}

/// Returns false if there is nothing to read at the moment.
bool WorkerOutput::read_some() {
  char buffer[kReadMax];
  ssize_t n = -1;
  do {
    n = ::read(pipe_.get(), buffer, sizeof buffer);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  text_.append(buffer, static_cast<std::size_t>(n));
  hand_over(text_.size() >= kLineMax);
  return true;
}

void WorkerOutput::hand_over(bool all) {
  const std::size_t end = all ? text_.size() : text_.rfind('\n') + 1;  // npos + 1 is 0
  if (end == 0) return;
  sink_(text_.substr(0, end));
  text_.erase(0, end);
}

}  // namespace pharos::node
