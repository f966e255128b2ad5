#pragma once

#include <cstddef>
#include <span>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

/// Blocking sends and receives, for threads that can wait: during start-up and handshakes. The socket may be blocking
/// or non-blocking. Any thread may call these functions, but only one at a time per socket and direction. A call that
/// need not wait succeeds even after its deadline. A failure does not close the socket.
namespace pharos::net {

/// Sends all bytes. Fails with kDeadlineExceeded after the deadline, and with the error of errno; some of the bytes may
/// have been sent then. If the peer has closed the connection, the error is kUnavailable, and there is no SIGPIPE.
Result<void> send_all(int socket, std::span<const std::byte> bytes, async::Deadline deadline);
/// Fills `bytes` from the socket. Bytes that came before a failure are lost. Fails with kUnavailable if the peer closes
/// the connection before, with kDeadlineExceeded after the deadline, and with the error of errno.
Result<void> receive_all(int socket, std::span<std::byte> bytes, async::Deadline deadline);
/// Receives the bytes that are available, without waiting. Returns 0 if no byte is available. Fails with kUnavailable
/// if the peer has closed the connection or `bytes` is empty, and with the error of errno.
Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes);

struct SocketPair {
  Fd first;
  Fd second;
};
/// Makes two connected Unix stream sockets, non-blocking, which are closed on exec.
Result<SocketPair> socket_pair();

}  // namespace pharos::net
