#include "program/stream_writer.hpp"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "program/thread_state.hpp"

namespace pharos::actors {
namespace {

void wait_for_room(int stream) {
  pollfd room{.fd = stream, .events = POLLOUT, .revents = 0};
  while (::poll(&room, 1, -1) < 0 && errno == EINTR) continue;
}

// Returns as many whole lines as a pipe with room takes in one write, or the first line if it is longer.
std::string_view next_lines(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  const std::size_t last = text.rfind('\n', PIPE_BUF - 1);
  const std::size_t end = last != std::string_view::npos ? last : text.find('\n', PIPE_BUF);
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

void write_lines(FILE* to, std::string_view lines) {
  const int stream = ::fileno(to);
  wait_for_room(stream);  // before the lock, which the program's own threads need in order to print
  ::flockfile(to);
  ::fflush_unlocked(to);  // the program has printed these bytes before
  while (!lines.empty()) {
    const ssize_t n = ::write(stream, lines.data(), lines.size());
    if (n > 0) {
      lines.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      wait_for_room(stream);
    } else if (errno != EINTR) {
      break;
    }
  }
  ::funlockfile(to);
}

}  // namespace

StreamWriter::StreamWriter(Duration patience) : patience_{patience} {}

StreamWriter::~StreamWriter() {
  finish();
}

void StreamWriter::write(FILE* to, std::string text, Written written) {
  const std::lock_guard lock{queue_->mutex};
  queue_->unwritten += text.size();
  queue_->texts.push_back({to, std::move(text), std::move(written)});
  queue_->changed.notify_all();
  if (!thread_.joinable()) thread_ = std::thread{[queue = queue_] { queue->write_all(); }};
}

std::size_t StreamWriter::finish() {
  if (!thread_.joinable()) return 0;
  std::unique_lock lock{queue_->mutex};
  queue_->ends = true;
  queue_->changed.notify_all();
  while (!queue_->ended) {
    const auto goes_on = [this, before = queue_->unwritten] { return queue_->ended || queue_->unwritten != before; };
    if (queue_->changed.wait_for(lock, patience_, goes_on)) continue;
    queue_->abandoned = true;
    thread_.detach();
    return queue_->unwritten;
  }
  lock.unlock();
  thread_.join();
  return 0;
}

void StreamWriter::Queue::write_all() {
  ::pthread_setname_np(::pthread_self(), "pharos-output");
  this_thread.is_runtimes = true;
  std::unique_lock lock{mutex};
  for (;;) {
    changed.wait(lock, [this] { return ends || !texts.empty(); });
    if (texts.empty()) break;
    Text& first = texts.front();
    lock.unlock();
    if (!write_one(first)) return;
    if (first.written) first.written();
    lock.lock();
    texts.pop_front();
  }
  ended = true;
  changed.notify_all();
}

// Returns false if finish() has given up and waits no longer.
bool StreamWriter::Queue::write_one(const Text& text) {
  for (std::string_view left = text.text; !left.empty();) {
    const std::string_view lines = next_lines(left);
    write_lines(text.to, lines);
    left.remove_prefix(lines.size());
    const std::lock_guard lock{mutex};
    if (abandoned) return false;
    unwritten -= lines.size();
    changed.notify_all();
  }
  return true;
}

}  // namespace pharos::actors
