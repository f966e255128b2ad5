#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <pharos/net/blocking_io.hpp>

namespace pharos::net {
namespace {

Result<void> wait_for(int socket, short events, async::Deadline deadline, const char* attempted) {
  for (;;) {
    const Duration left = deadline.left(std::chrono::steady_clock::now());
    if (left == Duration::zero()) {
      return Error{ErrorCode::kDeadlineExceeded, std::string{attempted} + ": the deadline has passed"};
    }
    pollfd waited{.fd = socket, .events = events, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, std::chrono::hours{1}));
    const int n = ::poll(&waited, 1, static_cast<int>(ms.count()));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return Error::from_errno(attempted, errno);
  }
}

}  // namespace

Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n == 0) return Error{ErrorCode::kUnavailable, "the peer closed the connection"};
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return Error::from_errno("receiving from the peer", errno);
  }
}

Result<void> receive_all(int socket, std::span<std::byte> bytes, async::Deadline deadline) {
  while (!bytes.empty()) {
    PHAROS_TRY(const std::size_t n, receive_some(socket, bytes));
    bytes = bytes.subspan(n);
    if (n == 0) PHAROS_TRY_VOID(wait_for(socket, POLLIN, deadline, "waiting for the peer"));
  }
  return {};
}

Result<void> send_all(int socket, std::span<const std::byte> bytes, async::Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      PHAROS_TRY_VOID(wait_for(socket, POLLOUT, deadline, "sending to the peer"));
    } else if (errno != EINTR) {
      return Error::from_errno("sending to the peer", errno);
    }
  }
  return {};
}

Result<SocketPair> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return Error::from_errno("making a pair of sockets", errno);
  }
  return SocketPair{Fd{ends[0]}, Fd{ends[1]}};
}

}  // namespace pharos::net
