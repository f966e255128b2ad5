#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>

#include "temporary_folder.hpp"

namespace pharos::process {

/// A deadline so far away that reaching it means a failed test.
inline async::Deadline soon() {
  return async::Deadline::after(std::chrono::seconds{30}, SteadyClock{});
}

/// Both ends of a pipe. While reading `from` does not end, some process that holds `to` is alive.
struct Pipe {
  Pipe() {
    int ends[2];
    PHAROS_CHECK(::pipe2(ends, O_CLOEXEC) == 0, errno);
    from = Fd{ends[0]};
    to = Fd{ends[1]};
  }
  /// Appends to `text` all bytes until the end of the pipe. Returns false if no byte and no end comes within 30 s.
  bool read_all(std::string& text) {
    to.reset();
    for (;;) {
      pollfd waited{.fd = from.get(), .events = POLLIN, .revents = 0};
      if (::poll(&waited, 1, 30'000) <= 0) return false;
      char buffer[4096];
      const ssize_t n = ::read(from.get(), buffer, sizeof buffer);
      if (n <= 0) return n == 0;
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  bool read_until_end() {
    std::string ignored;
    return read_all(ignored);
  }
  /// Blocks until a byte has been written. Returns false at the end of the pipe, or after 30 s.
  bool read_byte() {
    pollfd waited{.fd = from.get(), .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&waited, 1, 30'000) > 0 && ::read(from.get(), &byte, 1) == 1;
  }

  Fd from;
  Fd to;
};

inline void write_byte(const Fd& to) {
  PHAROS_CHECK(::write(to.get(), "x", 1) == 1);
}

/// Runs `body` in a child process. Returns the wait status of the child.
template <class Body>
int in_a_child(Body&& body) {
  const pid_t child = ::fork();
  PHAROS_CHECK(child >= 0, errno);
  if (child == 0) ::_exit(body());
  int status = 0;
  PHAROS_CHECK(::waitpid(child, &status, 0) == child);
  return status;
}

/// Starts a grandchild of the calling process, in a session of its own, that holds `alive` and waits for ever. The
/// grandchild has written a byte to `alive` before this function returns.
inline void start_hidden_grandchild(const Fd& alive, Pipe& begun) {
  const pid_t child = ::fork();
  PHAROS_CHECK(child >= 0, errno);
  if (child == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    ::setsid();
    write_byte(alive);
    write_byte(begun.to);
    for (;;) ::pause();
  }
  ::waitpid(child, nullptr, 0);
  PHAROS_CHECK(begun.read_byte());
}

}  // namespace pharos::process
